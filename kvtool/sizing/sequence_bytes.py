"""Bytes of one layer group: by the formula, and as an engine with blocks allocates them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvtool.sizing.formats import INDEX_SCALE_BYTES, KVFormat
from kvtool.sizing.layers import KVCacheSpec, LayerCache
from kvtool.sizing.lengths import batch_blocks, batch_tokens, kept_tokens

CONV_BYTES, RECURRENT_BYTES, HALF_BYTES = 2, 4, 2  # compute dtype, fp32, 16-bit residual


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is to be held: `batch` sequences of `tokens`, the first `shared` of them in common."""

    tokens: int
    batch: int = 1
    shared: int = 0
    block_size: int = 16


def formula_bytes(spec: KVCacheSpec, fmt: KVFormat, load: Load) -> int:
    """Values only: no scales, no rounding, windows respected."""
    tokens = batch_tokens(spec.cache, load.tokens, load.batch, load.shared)
    return len(spec.layers) * tokens * fmt.payload(spec.cache)


def growth_bytes(spec: KVCacheSpec, fmt: KVFormat, tokens: int) -> int:
    """What one more token of one sequence adds at this length; 0 once a window is full."""
    grown = kept_tokens(spec.cache, tokens + 1) - kept_tokens(spec.cache, tokens)
    return len(spec.layers) * grown * fmt.payload(spec.cache)


def index_bytes(spec: KVCacheSpec, load: Load) -> int:
    """Indexer keys; sparse attention caches them for every token, whatever it then reads."""
    tokens = batch_tokens(spec.cache, load.tokens, load.batch, load.shared)
    return len(spec.layers) * tokens * index_row(spec.cache)


def index_row(cache: LayerCache) -> int:
    return cache.index_dim + INDEX_SCALE_BYTES if cache.index_dim else 0


def state_bytes(spec: KVCacheSpec, batch: int) -> int:
    cache = spec.cache
    one = cache.conv_values * CONV_BYTES + cache.recurrent_values * RECURRENT_BYTES
    return len(spec.layers) * batch * one


def stored_bytes(spec: KVCacheSpec, fmt: KVFormat, tokens: int) -> int:
    """One sequence with scales, indexer and state, not rounded: what a transfer sends."""
    cache = spec.cache
    kept = kept_tokens(cache, tokens)
    wide = min(fmt.residual_tokens, kept)
    row = (kept - wide) * (fmt.stored(cache) + index_row(cache))
    row += wide * (cache.values_per_token * HALF_BYTES + index_row(cache))
    return len(spec.layers) * row + state_bytes(spec, 1)


def allocated_bytes(spec: KVCacheSpec, fmt: KVFormat, load: Load) -> int:
    """Blocks with scales, indexer keys, the 16-bit residual of each sequence, state."""
    cache = spec.cache
    wide = min(fmt.residual_tokens, kept_tokens(cache, load.tokens))
    blocks = batch_blocks(
        _without_residual(cache, wide),
        load.tokens - wide,
        load.block_size,
        load.batch,
        min(load.shared, load.tokens - wide),
    )
    row = fmt.stored(cache) + index_row(cache)
    residual = load.batch * wide * (cache.values_per_token * HALF_BYTES + index_row(cache))
    rows = blocks * load.block_size * row + residual
    return len(spec.layers) * rows + state_bytes(spec, load.batch)


def _without_residual(cache: LayerCache, wide: int) -> LayerCache:
    """The quantised part of a windowed or fixed cache, beside its `wide` 16-bit tokens."""
    if not wide:
        return cache
    window = None if cache.window is None else cache.window - wide
    fixed = None if cache.fixed_tokens is None else cache.fixed_tokens - wide
    return replace(cache, window=window, fixed_tokens=fixed)
