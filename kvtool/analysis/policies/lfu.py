"""Least frequently used."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from kvtool.analysis.accesses import Accesses
from kvtool.analysis.policies.policy import Mask


def lfu(accesses: Accesses, capacities: Sequence[int]) -> Iterator[Mask]:
    """The block used by the fewest requests since it came goes first, of equals the least
    recently used; a request uses its blocks head first.

    A block that comes back starts anew. Chains are not respected, as with fifo.
    """
    return (_resident(accesses, capacity) for capacity in capacities)


def _resident(accesses: Accesses, capacity: int) -> Mask:
    uses = _Uses()
    found: list[bool] = []
    for blocks in accesses.by_request():
        found += map(uses.count_of.__contains__, blocks)
        for block in blocks:
            if block not in uses.count_of and len(uses.count_of) == capacity:
                uses.evict()
            uses.use(block)
    return np.array(found, dtype=bool)


class _Uses:
    """Cached blocks by their count, each count's in order of their last use (Shah, Mitra and
    Matani, 2010): constant time a use."""

    def __init__(self) -> None:
        self.count_of: dict[int, int] = {}
        self._by_count: defaultdict[int, OrderedDict[int, None]] = defaultdict(OrderedDict)

    def use(self, block: int) -> None:
        count = self.count_of.get(block, 0)
        if count:
            self._remove(block, count)
        self.count_of[block] = count + 1
        self._by_count[count + 1][block] = None

    def evict(self) -> None:
        least = 1 if 1 in self._by_count else min(self._by_count)
        block = next(iter(self._by_count[least]))
        self._remove(block, least)
        del self.count_of[block]

    def _remove(self, block: int, count: int) -> None:
        blocks = self._by_count[count]
        del blocks[block]
        if not blocks:
            del self._by_count[count]
