"""How many tokens and blocks a layer holds for a sequence, alone or behind a shared prefix.

tokens      0 ........ start ............... tokens
full        [==========================]     keeps everything
windowed               [===============]     keeps the last `window`
shared      [=========)                      the first `shared` tokens are stored once a batch
"""

from __future__ import annotations

from kvtool.sizing.layers import STATE, LayerCache


def kept_tokens(cache: LayerCache, tokens: int) -> int:
    """Tokens of one sequence whose K and V this layer still needs."""
    if cache.kind == STATE:
        return 0
    if cache.fixed_tokens is not None:
        return cache.fixed_tokens
    return tokens if cache.window is None else min(tokens, cache.window)


def batch_tokens(cache: LayerCache, tokens: int, batch: int, shared: int) -> int:
    """Tokens stored for `batch` sequences of `tokens` that agree in their first `shared`."""
    kept = kept_tokens(cache, tokens)
    if cache.fixed_tokens is not None:
        return batch * kept
    once = max(0, min(shared, tokens) - (tokens - kept))
    return once + batch * (kept - once)


def kept_blocks(cache: LayerCache, tokens: int, block_size: int) -> int:
    """Blocks of one sequence; a window may begin and end inside a block, so it takes one more."""
    if cache.kind == STATE:
        return 0
    if cache.fixed_tokens is not None:
        return blocks(cache.fixed_tokens, block_size)
    needed = blocks(tokens, block_size)
    if cache.window is None or tokens <= cache.window:
        return needed
    return min(needed, blocks(cache.window - 1, block_size) + 1) if cache.window else 0


def batch_blocks(cache: LayerCache, tokens: int, block_size: int, batch: int, shared: int) -> int:
    """Only whole blocks of the shared prefix are shared."""
    kept = kept_blocks(cache, tokens, block_size)
    if cache.fixed_tokens is not None:
        return batch * kept
    first = blocks(tokens, block_size) - kept
    once = max(0, min(shared, tokens) // block_size - first)
    return once + batch * (kept - once)


def blocks(tokens: int, block_size: int) -> int:
    return -(-tokens // block_size)
