"""Finds the next victim: a heap with lazy invalidation over evictable blocks."""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heappushpop

import numpy as np

from kvtool.cache.block_pool import BlockPool
from kvtool.cache.eviction import EvictionPolicy

Entry = tuple[float, ...]  # (*rank, -position, block id)


class EvictionHeap:
    """An entry is pushed whenever a block becomes evictable and never taken back.

    On the way out an entry counts only if its block is evictable and would get the same entry
    now: a block that was used in between has another rank and an entry of its own.
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
        while True:
            entry = heappop(self._heap)
            if self._is_current(entry):
                return int(entry[-1])

    def push_pop(self, block: int) -> int:
        """`push(block)`, then `pop()`: cheap where the parent of a victim is the next victim."""
        entry = heappushpop(self._heap, self._entry(block))
        if entry[-1] == block or self._is_current(entry):
            return int(entry[-1])
        return self.pop()

    def clear(self) -> None:
        self._heap.clear()

    def _entry(self, block: int) -> Entry:
        pool = self._pool
        return (*self._policy(pool.use(block)), -pool.home_of[block], block)

    def _is_current(self, entry: Entry) -> bool:
        block = int(entry[-1])
        return self._pool.is_evictable(block) and self._entry(block) == entry

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
