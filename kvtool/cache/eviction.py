"""Which cached block goes first. A policy only ranks; `eviction_heap` finds and removes.

A policy is a pure function of how a block was used: the lowest rank is evicted first. A block
with cached successors is never evicted before them, whatever its rank; equal ranks go deepest
block first, then lowest id.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

Rank = tuple[float, ...]


class BlockUse(NamedTuple):
    """Times are ticks of the manager's clock: one per request that begins, commits or is freed."""

    last_use: int
    created: int  # when the request that stored the block stored its first one
    hits: int  # requests that found the block in the cache
    priority: int  # the highest one of the requests that stored or hit it


UNUSED = BlockUse(0, 0, 0, 0)

EvictionPolicy = Callable[[BlockUse], Rank]


def lru(use: BlockUse) -> Rank:
    """Least recently used."""
    return (use.last_use,)


def lfu(use: BlockUse) -> Rank:
    """Least frequently used; among equals the least recently used."""
    return (use.hits, use.last_use)


def fifo(use: BlockUse) -> Rank:
    """Oldest first, used or not; all blocks of a request are as old as its first one."""
    return (use.created,)


def slru(use: BlockUse) -> Rank:
    """Segmented LRU: blocks hit at least once are protected; LRU within a segment."""
    return (use.hits > 0, use.last_use)


def priority(use: BlockUse) -> Rank:
    """Lowest request priority first; LRU within a priority (TensorRT-LLM's retention order)."""
    return (use.priority, use.last_use)


POLICIES = {
    "lru": "kvtool.cache.eviction:lru",
    "lfu": "kvtool.cache.eviction:lfu",
    "fifo": "kvtool.cache.eviction:fifo",
    "slru": "kvtool.cache.eviction:slru",
    "priority": "kvtool.cache.eviction:priority",
}
