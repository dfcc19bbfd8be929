"""Prefix indexes whose hash functions collide all the time. The radix tree has none."""

from __future__ import annotations

from functools import partial

from kvtool.cache.chain import HashChain
from kvtool.cache.group_cache import IndexFactory

WEAK: dict[str, IndexFactory] = {
    "chain, one hash": partial(HashChain, block_hash=lambda parent, tokens: b"1" * 32),
    "chain, tokens only": partial(
        HashChain, block_hash=lambda parent, tokens: tokens.ljust(32)[:32]
    ),
}
