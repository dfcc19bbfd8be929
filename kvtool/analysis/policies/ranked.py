"""The engine's own eviction: leaves first, by the rank of a policy of `cache.eviction`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

import numpy as np

from kvtool.analysis.accesses import Accesses
from kvtool.analysis.policies.policy import Mask
from kvtool.cache.eviction import BlockUse, EvictionPolicy

Entry = tuple[float, ...]  # (*rank, block)
_NONE = -1


def ranked(accesses: Accesses, capacities: Sequence[int], policy: EvictionPolicy) -> Iterator[Mask]:
    """Any policy of the engine, which serves one request at a time and keeps what it uses: the
    block of the lowest rank goes first, and never before those behind it.

    Of a request larger than the capacity the leading blocks stay.
    """
    priorities = accesses.priorities.tolist()
    parents = _parents(accesses)
    for capacity in capacities:
        tree = _Tree(capacity, policy, parents)
        found: list[bool] = []
        for now, blocks in enumerate(accesses.by_request()):
            hits = tree.serve(blocks, priorities[now], now)
            found += [True] * hits + [False] * (len(blocks) - hits)
        yield np.array(found, dtype=bool)


def _parents(accesses: Accesses) -> dict[int, int]:
    """Of each block the one in front of it, -1 where it is the first of its requests."""
    before = np.concatenate([[_NONE], accesses.blocks[:-1]])
    before[accesses.depths == 0] = _NONE
    return dict(zip(accesses.blocks.tolist(), before.tolist()))


class _Tree:
    """The cached blocks. heap: entries of leaves, of which those in `offered` count: the leaves
    that the present request does not use."""

    def __init__(self, capacity: int, policy: EvictionPolicy, parents: dict[int, int]) -> None:
        self._capacity = capacity
        self._policy = policy
        self._parents = parents
        self._uses: dict[int, BlockUse] = {}
        self._children: dict[int, int] = defaultdict(int)  # how many cached blocks follow it
        self._offered: dict[int, Entry] = {}
        self._heap: list[Entry] = []

    def serve(self, blocks: list[int], priority: int, now: int) -> int:
        """Looks up and inserts; how many blocks were there, which are the leading ones."""
        hits, last, uses = 0, _NONE, self._uses
        for block in blocks:
            use = uses.get(block)
            if use is not None:
                highest = max(use.priority, priority)
                uses[block] = BlockUse(now, use.created, use.hits + 1, highest)
                self._offered.pop(block, None)
                hits += 1
            elif len(uses) < self._capacity or self._evict(now):
                uses[block] = BlockUse(now, now, 0, priority)
                self._children[last] += 1
            else:
                break
            last = block
        if last != _NONE and not self._children[last]:
            self._offer(last)
        return hits

    def _evict(self, now: int) -> bool:
        """False: every block is in use, or in front of one that is."""
        while self._heap:
            entry = heappop(self._heap)
            block = int(entry[-1])
            if self._offered.get(block) is not entry:
                continue
            parent = self._parents[block]
            del self._offered[block], self._uses[block], self._children[block]
            self._children[parent] -= 1
            if parent != _NONE and not self._children[parent] and self._uses[parent].last_use < now:
                self._offer(parent)
            return True
        return False

    def _offer(self, block: int) -> None:
        entry = self._offered[block] = (*self._policy(self._uses[block]), block)
        heappush(self._heap, entry)
