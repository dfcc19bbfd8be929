"""Prefix indexes whose hash functions collide all the time."""

from __future__ import annotations

from functools import partial

import numpy as np

from kvtool.cache import radix
from kvtool.cache.chain import HashChain
from kvtool.cache.group_cache import IndexFactory
from kvtool.cache.radix import RadixTree


def constant_tokens(blocks: np.ndarray) -> list[int]:
    return [0] * len(blocks)


def parent_blind(blocks: np.ndarray) -> list[int]:
    """Blocks that start with token t get the key of any block t places behind their parent."""
    return [-first * radix._PARENT_FACTOR for first in blocks[:, 0].tolist()]


WEAK: dict[str, IndexFactory] = {
    "radix, one hash": partial(RadixTree, token_hash=constant_tokens),
    "radix, keys of other parents": partial(RadixTree, token_hash=parent_blind),
    "chain, one hash": partial(HashChain, block_hash=lambda parent, tokens: b"1" * 32),
    "chain, tokens only": partial(
        HashChain, block_hash=lambda parent, tokens: tokens.ljust(32)[:32]
    ),
}
