"""Finds the next victim: a heap with lazy invalidation over evictable blocks."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from kvtool.cache.block_pool import BlockPool
from kvtool.cache.eviction import EvictionPolicy

Entry = tuple[Any, ...]  # (*rank, -position, block id, use that gave the rank)


class EvictionHeap:
    """An entry is pushed whenever a block becomes evictable and never taken back.

    On the way out an entry counts only if its block is evictable and was not used since: a block
    that was has an entry of its own.
    """

    def __init__(self, pool: BlockPool, policy: EvictionPolicy) -> None:
        self._pool = pool
        self._policy = policy
        self._heap: list[Entry] = []
        self._rebuild_at = 1024

    def push(self, block: int) -> None:
        if len(self._heap) >= self._rebuild_at:
            self._rebuild()
        heappush(self._heap, self._entry(block))

    def pop(self) -> int:
        """The victim; there must be an evictable block."""
        block: int = self._pop()[-2]
        return block

    def _pop(self) -> Entry:
        while True:
            entry = heappop(self._heap)
            if self._is_current(entry):
                return entry

    def pop_run(self, limit: int) -> list[int]:
        """The next victim, and at most `limit - 1` that follow it one after the other: the blocks
        in front of it, as far as they were used alike. There must be an evictable block.

        The last one's parent may be evictable once they are gone, and is to be pushed then.
        """
        heap, home_of = self._heap, self._pool.home_of
        entry = self._pop()
        rank, leaf = entry[:-3], entry[-2]
        run = self._pool.idle_run(leaf, limit)
        last = (*rank, -home_of[run[-1]], run[-1])
        while heap and heap[0] < last:
            other = heap[0]
            if other[-2] != leaf and self._is_current(other):
                return [block for block in run if (*rank, -home_of[block], block) < other]
            heappop(heap)
        return run

    def clear(self) -> None:
        self._heap.clear()

    def _entry(self, block: int) -> Entry:
        use = self._pool.use(block)
        return (*self._policy(use), -self._pool.home_of[block], block, use)

    def _is_current(self, entry: Entry) -> bool:
        block = entry[-2]
        return self._pool.use(block) == entry[-1] and self._pool.is_evictable(block)

    def _evictable(self) -> list[int]:
        pool = self._pool
        blocks = (pool.ref_count == 0) & (pool.num_tokens > 0) & (pool.num_children == 0)
        ids: list[int] = np.flatnonzero(blocks).tolist()
        return ids

    def _rebuild(self) -> None:
        """Stale entries stay at most as many as current ones."""
        self._heap = [self._entry(block) for block in self._evictable()]
        heapify(self._heap)
        self._rebuild_at = max(1024, 2 * len(self._heap))

    def check_integrity(self) -> None:
        entries = set(self._heap)
        for block in self._evictable():
            assert self._entry(block) in entries, f"evictable block {block} has no heap entry"
