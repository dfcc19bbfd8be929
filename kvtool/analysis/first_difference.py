"""Where a prompt parts from an earlier one, in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kvtool.analysis.causes.cause import REPLY_RERENDERED
from kvtool.analysis.causes.changed_chat import part_at
from kvtool.analysis.comparison import Comparison
from kvtool.analysis.volatile import volatile_in_both
from kvtool.traces.prepared import PreparedRequest, Symbols
from kvtool.traces.trace_request import BlockPrompt, ChatPrompt

WINDOW = 12  # tokens of context on either side

Decode = Callable[[Symbols], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstDifference:
    """token: prompt tokens in front of it. message (-1: the tools), field, role: where it lies in
    the prompt; None where there are no messages. expected: of the earlier request previous_id,
    found: of this one, a token or a hash id; windows: the text around them. pattern: what kind of
    text differs, see `volatile`, or in what way."""

    token: int
    message: int | None
    field: str | None
    role: str | None
    previous_id: str
    expected: str
    found: str
    pattern: str | None
    expected_window: str | None
    found_window: str | None


def first_difference(compared: Comparison, decode: Decode, scale: int) -> FirstDifference | None:
    """None: there is no earlier request, or one of the two prompts is the beginning of the other.
    scale: tokens a symbol."""
    if compared.other is None:
        return None
    request, other = compared.request, compared.other.request
    expected, at = _expected(compared), compared.shared
    if compared.change is not None and compared.change.cause == REPLY_RERENDERED:
        at = compared.change.start
    if at >= min(len(expected), len(request.symbols)):
        return None
    part = part_at(request.segments, at) if request.segments else None
    windows = [decode(side[max(0, at - WINDOW) : at + WINDOW]) for side in _both(request, expected)]
    tokens = [decode(side[at : at + 1]) for side in _both(request, expected)]
    return FirstDifference(
        token=at * scale,
        message=part.message if part else None,
        field=part.field if part else None,
        role=_role(request, part.message) if part else None,
        previous_id=other.request.id,
        expected=_name(other, at, tokens[1]),
        found=_name(request, at, tokens[0]),
        pattern=_pattern(compared, windows[1], windows[0]),
        expected_window=windows[1],
        found_window=windows[0],
    )


def _both(request: PreparedRequest, expected: Symbols) -> tuple[Symbols, Symbols]:
    return request.symbols, expected


def _expected(compared: Comparison) -> Symbols:
    """Behind the earlier prompt its reply is expected, where that is what changed."""
    assert compared.other is not None
    other, change = compared.other.request, compared.change
    if change is None or change.cause != REPLY_RERENDERED:
        return other.symbols
    return np.concatenate([other.symbols, other.reply])


def _name(request: PreparedRequest, at: int, text: str | None) -> str:
    prompt = request.request.prompt
    if isinstance(prompt, BlockPrompt):
        return str(prompt.hash_ids[at]) if at < len(prompt.hash_ids) else ""
    return text or ""


def _role(request: PreparedRequest, message: int) -> str | None:
    prompt = request.request.prompt
    if not isinstance(prompt, ChatPrompt) or not 0 <= message < len(prompt.messages):
        return None
    return str(prompt.messages[message].get("role"))


def _pattern(compared: Comparison, expected: str | None, found: str | None) -> str | None:
    if expected is None or found is None:
        return None
    assert compared.other is not None
    prompts = [r.request.prompt for r in (compared.other.request, compared.request)]
    old, new = prompts
    if isinstance(old, ChatPrompt) and isinstance(new, ChatPrompt) and old.tools and new.tools:
        order = _order(old, new)
        if order is not None:
            return order
    if expected == found:
        return "same text, other tokens"
    return volatile_in_both(expected, found)


def _written(prompt: ChatPrompt) -> list[str]:
    return [json.dumps(tool) for tool in prompt.tools]


def _order(old: ChatPrompt, new: ChatPrompt) -> str | None:
    """Of tools that are the same but for it."""
    if _written(old) == _written(new):
        return None
    sides = [[json.dumps(tool, sort_keys=True) for tool in side.tools] for side in (old, new)]
    if sides[0] == sides[1]:
        return "order of keys"
    return "order of tools" if sorted(sides[0]) == sorted(sides[1]) else None
