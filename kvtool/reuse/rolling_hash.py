"""A polynomial hash of token windows (Karp and Rabin), modulo 2^64.

    hash(t[0], ..., t[size - 1]) = sum of t[j] * BASE^j

It finds candidates and proves nothing: whoever uses it compares the tokens.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvtool.cache.block_pool import Tokens

Hashes = npt.NDArray[np.uint64]

BASE = 0x9E3779B97F4A7C15  # odd, so that it has an inverse
INVERSE = pow(BASE, -1, 1 << 64)


def window_hashes(tokens: Tokens, size: int) -> Hashes:
    """int32 [n] -> uint64 [n - size + 1], the hash of every window; empty where n < size."""
    if len(tokens) < size:
        return np.empty(0, dtype=np.uint64)
    sums = prefix_hashes(tokens)
    # [i, i + size) of the running sum is the hash times BASE^i.
    return (sums[size:] - sums[:-size]) * _powers(INVERSE, len(sums) - size)


def prefix_hashes(tokens: Tokens) -> Hashes:
    """int32 [n] -> uint64 [n + 1], the hash of the first 0, 1, ..., n tokens."""
    sums = np.zeros(len(tokens) + 1, dtype=np.uint64)
    np.cumsum(tokens.astype(np.uint64) * _powers(BASE, len(tokens)), out=sums[1:])
    return sums


def block_hashes(blocks: Tokens) -> Hashes:
    """int32 [m, size] -> uint64 [m]: what `window_hashes` says of each block."""
    hashes: Hashes = blocks.astype(np.uint64) @ _powers(BASE, blocks.shape[1])
    return hashes


def _powers(base: int, count: int) -> Hashes:
    """base^0 ... base^(count - 1)."""
    powers = np.full(count, base, dtype=np.uint64)
    powers[:1] = 1
    return np.cumprod(powers, out=powers)
