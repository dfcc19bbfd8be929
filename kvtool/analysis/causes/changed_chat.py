"""Which message of a conversation changed since the request before, and how."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from kvtool.analysis.causes.cause import CONTEXT_REWRITTEN, REPLY_RERENDERED, TRUNCATED_WINDOW
from kvtool.analysis.causes.change import Change, Past
from kvtool.cache.common_prefix import common_prefix
from kvtool.traces.prepared import PreparedRequest, Segment
from kvtool.traces.trace_request import ChatPrompt, Json

TOOLS = -1
MIN_LIKENESS = 0.5
_ALWAYS_EARLIER = ("system", "developer")


def chat_change(
    request: PreparedRequest, past: Past, shared: int, output_kv: bool
) -> Change | None:
    """shared: leading tokens that both prompts have.

    Behind the first difference, messages are aligned: all up to the last one that the request
    before had too could have been a hit. None: nothing changed but for what came behind the
    earlier prompt, or nothing behind the difference is left of it and what stands there is no
    version of it, so that this begins something new.
    """
    before = past.request
    if shared >= _body(before):
        return _changed_reply(request, past) if output_kv and len(before.reply) else None
    here, there = part_at(request.segments, shared), part_at(before.segments, shared)
    old, new = _messages(before), _messages(request)
    if "tools" in (here.field, there.field):
        kept = _kept(old, new)
        stop = _stop(request.segments, kept.last)
        return Change(CONTEXT_REWRITTEN, shared, stop, past.position, TOOLS, TOOLS)
    first = min(max(0, here.message), max(0, there.message), len(old) - 1, len(new) - 1)
    kept = _kept(old[first:], new[first:])
    cause = _cause(old[first], new[first], kept)
    if kept.last < 0 and not _is_version(old[first], new[first]):
        return None
    stop = _stop(request.segments, first + max(0, kept.last))
    return Change(cause, shared, max(shared, stop), past.position, first, first)


class _Kept(NamedTuple):
    """last: index of the last message that was there before, -1: none was. only_dropped: what
    stands first now was there before, behind others."""

    last: int
    only_dropped: bool


def _kept(old: Sequence[Json], new: Sequence[Json]) -> _Kept:
    matcher = SequenceMatcher(None, _keys(old), _keys(new), autojunk=False)
    blocks = [block for block in matcher.get_matching_blocks() if block.size]
    if not blocks:
        return _Kept(-1, False)
    return _Kept(blocks[-1].b + blocks[-1].size - 1, blocks[0].b == 0 and blocks[0].a > 0)


def _cause(old: Json, new: Json, kept: _Kept) -> str:
    """A reply that is the same, or lacks its thinking, was not changed by anybody: it is rendered
    otherwise than before."""
    if old.get("role") == new.get("role") == "assistant" and _spoken(old) == _spoken(new):
        return REPLY_RERENDERED
    return TRUNCATED_WINDOW if kept.only_dropped else CONTEXT_REWRITTEN


def _spoken(message: Json) -> tuple[str, object]:
    """Without thinking."""
    content = str(message.get("content") or "")
    return content.rpartition("</think>")[2].strip(), message.get("tool_calls") or None


def _is_version(old: Json, new: Json) -> bool:
    """Whether a message stands for an earlier one, though nothing behind it is left."""
    role = new.get("role")
    if role != old.get("role"):
        return False
    if role in _ALWAYS_EARLIER or old == new:
        return True
    before, now = (str(message.get("content") or "") for message in (old, new))
    same = _num_equal(before, now) + _num_equal(reversed(before), reversed(now))
    return same >= MIN_LIKENESS * max(len(before), len(now))


def _num_equal(one: Iterable[str], other: Iterable[str]) -> int:
    """Leading characters."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other)))


def _changed_reply(request: PreparedRequest, past: Past) -> Change | None:
    """The prompt goes on behind the earlier one: with the reply as it was emitted?"""
    before, index = past.request, len(_messages(past.request))
    messages = _messages(request)
    if index >= len(messages) or messages[index].get("role") != "assistant":
        return None
    emitted = np.concatenate([before.symbols, before.reply[:-1]])
    start = common_prefix(request.symbols, emitted)
    stop = max((s.stop for s in request.segments if s.message == index), default=0)
    if start >= stop:
        return None
    return Change(REPLY_RERENDERED, start, stop, past.position, index, None)


def part_at(segments: Sequence[Segment], token: int) -> Segment:
    """The part that this token lies in, or the next one where the template wrote it; the last
    where there is none."""
    behind = [segment for segment in segments if segment.stop > token]
    written = [segment for segment in behind if segment.field != "template"]
    return written[0] if written else (behind or segments)[-1]


def _body(request: PreparedRequest) -> int:
    """Behind it the template leads over to the reply."""
    return max((s.stop for s in request.segments if s.field != "template"), default=0)


def _stop(segments: Sequence[Segment], message: int) -> int:
    """Up to where a message reaches, with what the template writes behind it."""
    own = [i for i, segment in enumerate(segments) if segment.message <= message]
    own = [i for i in own if segments[i].field != "template"]
    if not own:
        return 0
    following = own[-1] + 1
    leads_over = following < len(segments) and segments[following].field == "template"
    return segments[following if leads_over else own[-1]].stop


def _prompt(request: PreparedRequest) -> ChatPrompt:
    prompt = request.request.prompt
    assert isinstance(prompt, ChatPrompt)
    return prompt


def _messages(request: PreparedRequest) -> tuple[Json, ...]:
    return _prompt(request).messages


def _keys(messages: Sequence[Json]) -> list[str]:
    return [json.dumps(message, ensure_ascii=False) for message in messages]
