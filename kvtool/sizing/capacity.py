"""The inverse question: the longest context and the most sequences that fit into a memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kvtool.sizing.formats import KVFormat
from kvtool.sizing.layers import KVCacheSpec
from kvtool.sizing.sequence_bytes import Load, allocated_bytes

LIMIT = 2**40  # beyond this, size no longer grows with the number searched for

Stages = Sequence[tuple[KVCacheSpec, ...]]


def rank_bytes(stages: Stages, fmt: KVFormat, load: Load) -> int:
    """Allocated bytes on the fullest rank."""
    return max(sum(allocated_bytes(s, fmt, load) for s in specs) for specs in stages)


def max_tokens(stages: Stages, fmt: KVFormat, load: Load, memory: int) -> int | None:
    """Longest context of `load.batch` sequences; None when no length fills the memory."""

    def fits(tokens: int) -> bool:
        shared = min(load.shared, tokens)
        return rank_bytes(stages, fmt, replace(load, tokens=tokens, shared=shared)) <= memory

    return _largest(fits)


def max_concurrency(stages: Stages, fmt: KVFormat, load: Load, memory: int) -> int | None:
    """Most whole sequences of `load.tokens` that fit."""
    return _largest(lambda n: rank_bytes(stages, fmt, replace(load, batch=n)) <= memory)


def _largest(fits: Callable[[int], bool]) -> int | None:
    """The largest n with fits(n); fits is monotone, 0 always fits."""
    if fits(LIMIT):
        return None
    low, high = 0, LIMIT
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
