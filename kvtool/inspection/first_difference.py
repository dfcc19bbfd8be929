"""Where two token sequences part, with a little of what stands around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kvtool.cache.block_pool import Tokens

Decode = Callable[[Sequence[int]], str]

BEFORE, BEHIND = 12, 6  # tokens of context


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The token of one sequence at the difference. Texts are None where no tokenizer was given."""

    token_id: int
    text: str | None
    behind: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstDifference:
    """position: in tokens from the start. before: the text in front of it, common to both.

    prompt: what was asked for, or the first of two. stored: the other one.
    """

    position: int
    block: int
    before: str | None
    prompt: Side
    stored: Side


def common_length(a: Tokens, b: Tokens) -> int:
    """Leading tokens that are equal."""
    length = min(len(a), len(b))
    different = np.flatnonzero(np.asarray(a[:length]) != np.asarray(b[:length]))
    return int(different[0]) if len(different) else length


def first_difference(
    prompt: Tokens,
    stored: Tokens,
    position: int,
    *,
    starts: tuple[int, int],
    block_size: int,
    decode: Decode | None,
) -> FirstDifference:
    """starts: positions of the first tokens of `prompt` and `stored`; both reach `position`."""
    at = position - starts[0]
    return FirstDifference(
        position=position,
        block=position // block_size,
        before=_text(prompt[max(0, at - BEFORE) : at], decode),
        prompt=_side(prompt[at:], decode),
        stored=_side(stored[position - starts[1] :], decode),
    )


def _side(tokens: Tokens, decode: Decode | None) -> Side:
    return Side(
        token_id=int(tokens[0]),
        text=_text(tokens[:1], decode),
        behind=_text(tokens[1 : 1 + BEHIND], decode),
    )


def _text(tokens: Tokens, decode: Decode | None) -> str | None:
    return None if decode is None else decode([int(token) for token in tokens])
