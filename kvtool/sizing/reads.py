"""KV a decode step reads, and a whole generation: the part that grows with the square."""

from __future__ import annotations

from kvtool.sizing.formats import KVFormat
from kvtool.sizing.layers import STATE, KVCacheSpec, LayerCache
from kvtool.sizing.sequence_bytes import HALF_BYTES, index_row, state_bytes


def step_reads(spec: KVCacheSpec, fmt: KVFormat, tokens: int) -> int:
    """Bytes one step of one sequence reads with `tokens` in the cache."""
    return generation_reads(spec, fmt, tokens, tokens)


def generation_reads(spec: KVCacheSpec, fmt: KVFormat, first: int, last: int) -> int:
    """Sum of the steps that see `first`, `first + 1`, … `last` tokens; one sequence."""
    cache = spec.cache
    steps = last - first + 1
    if cache.kind == STATE:
        return steps * state_bytes(spec, 1)
    rows = _tokens_read(cache, first, last, _limit(cache))
    wide = _tokens_read(cache, first, last, _at_most(fmt.residual_tokens, _limit(cache)))
    scanned = _tokens_read(cache, first, last, None)
    per_layer = (rows - wide) * fmt.stored(cache) + wide * cache.values_per_token * HALF_BYTES
    return len(spec.layers) * (per_layer + scanned * index_row(cache))


def _limit(cache: LayerCache) -> int | None:
    """Most tokens a step reads: the window, or what the indexer chooses."""
    return cache.window if cache.window is not None else cache.index_topk


def _at_most(count: int, limit: int | None) -> int:
    return count if limit is None else min(count, limit)


def _tokens_read(cache: LayerCache, first: int, last: int, limit: int | None) -> int:
    """Sum of min(t, limit) for t in first..last; a fixed length counts once a step."""
    if cache.fixed_tokens is not None:
        return (last - first + 1) * _at_most(cache.fixed_tokens, limit)
    if limit is None:
        return _triangle(last) - _triangle(first - 1)
    low = max(first, limit + 1)  # from here on a step reads `limit` tokens
    growing = _triangle(min(last, limit)) - _triangle(min(first - 1, limit))
    return growing + max(0, last - low + 1) * limit


def _triangle(n: int) -> int:
    return n * (n + 1) // 2
