"""Which request computed the blocks that another one found in the cache."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np


class Moment(NamedTuple):
    """A track, and a time on it, in nanoseconds."""

    tid: int
    ns: int


class Flow(NamedTuple):
    """source: the start of the request that computed the block; target: of the one that hit it."""

    source: Moment
    target: Moment


class Flows:
    """Known only in the end: who computed a block may still run when who hit it has ended.

    Memory: 40 bytes for each block that was computed.
    """

    def __init__(self) -> None:
        self._blocks, self._starts, self._ready, self._tids = (array("q") for _ in range(4))
        self._hits: list[tuple[int, Moment]] = []

    def computed(self, block_ids: Sequence[int], start: Moment, ready_ns: int) -> None:
        """ready: from then on the blocks can be found."""
        for block in block_ids:
            self._blocks.append(block)
            self._starts.append(start.ns)
            self._ready.append(ready_ns)
            self._tids.append(start.tid)

    def hit(self, block: int, at: Moment) -> None:
        self._hits.append((block, at))

    def __iter__(self) -> Iterator[Flow]:
        """A block id is used again after an eviction, so the last who computed it by then counts;
        hits of a block that was not ready yet are left out, since it may have had another content.
        """
        blocks, starts = (np.array(column, np.int64) for column in (self._blocks, self._starts))
        order = np.lexsort((starts, blocks))
        blocks, starts = blocks[order], starts[order]
        for block, at in self._hits:
            first, stop = np.searchsorted(blocks, (block, block + 1))
            last = first + int(np.searchsorted(starts[first:stop], at.ns, side="right")) - 1
            if last < first:
                continue
            row = int(order[last])
            if self._ready[row] <= at.ns:
                yield Flow(Moment(self._tids[row], self._starts[row]), at)
