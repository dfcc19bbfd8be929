"""Finds the next victim: a heap with lazy invalidation over evictable blocks."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any

from kvtool.cache.block_tree import BlockTree
from kvtool.cache.eviction import EvictionPolicy

Entry = tuple[Any, ...]  # (*rank, -position, block id, use that gave the rank)


class EvictionHeap:
    """An entry is pushed whenever a block becomes evictable and never taken back.

    On the way out an entry counts only if its block is evictable and was not used since: a block
    that was has an entry of its own.
    """

    def __init__(self, tree: BlockTree, policy: EvictionPolicy) -> None:
        self._tree = tree
        self._policy = policy
        self._heap: list[Entry] = []
        self._rebuild_at = 1024

    def push(self, block: int) -> None:
        if len(self._heap) >= self._rebuild_at:
            self._rebuild()
        heappush(self._heap, self._entry(block))

    def pop(self) -> int:
        """The victim; there must be an evictable block."""
        return self.pop_run(1)[0]

    def pop_run(self, limit: int) -> list[int]:
        """The next victim, and at most `limit - 1` that follow it one after the other: blocks in
        front of it, as far as they were used alike. There must be an evictable block.

        The last one's parent may be evictable once they are gone, and is to be pushed then.
        """
        heap = self._heap
        evictable_use = self._tree.evictable_use
        while evictable_use((entry := heappop(heap))[-2]) != entry[-1]:
            pass
        rank, position, leaf = entry[:-3], entry[-3], entry[-2]
        run = self._tree.evictable_run(leaf, limit)
        last = (*rank, position + len(run) - 1, run[-1])
        while heap and heap[0] < last:
            other = heap[0]
            if other[-2] != leaf and evictable_use(other[-2]) == other[-1]:
                order = enumerate(run, position)
                return [block for place, block in order if (*rank, place, block) < other]
            heappop(heap)
        return run

    def clear(self) -> None:
        self._heap.clear()

    def _entry(self, block: int) -> Entry:
        use, position = self._tree.use_and_position(block)
        return (*self._policy(use), -position, block, use)

    def _rebuild(self) -> None:
        """Every evictable block has an entry: stale ones stay at most as many as current ones."""
        use_of = self._tree.evictable_use
        self._heap = [entry for entry in set(self._heap) if use_of(entry[-2]) == entry[-1]]
        heapify(self._heap)
        self._rebuild_at = max(1024, 2 * len(self._heap))

    def check_integrity(self) -> None:
        entries = set(self._heap)
        for _, block in self._tree.leaves():
            if self._tree.evictable_use(block):
                assert self._entry(block) in entries, f"evictable block {block} has no heap entry"
