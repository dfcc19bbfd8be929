"""From a 64-bit hash to the blocks that have it: two sorted arrays, 12 bytes a block."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvtool.reuse.rolling_hash import Hashes

Ids = npt.NDArray[np.int32]


class HashIndex:
    """Changes are collected and merged by the next look-up: merging costs a pass over the arrays,
    and stored text changes far less often than it is asked for."""

    def __init__(self) -> None:
        self._hashes: Hashes = np.empty(0, dtype=np.uint64)
        self._ids: Ids = np.empty(0, dtype=np.int32)
        self._added: dict[int, int] = {}  # id -> hash, in the order in which they were added
        self._removed: set[int] = set()

    def add(self, block: int, value: int) -> None:
        self._added[block] = value

    def remove(self, block: int) -> None:
        if self._added.pop(block, None) is None:
            self._removed.add(block)

    def newest(self, hashes: Hashes) -> Ids:
        """For every hash the block with it that was added last, or -1."""
        self._merge()
        if not len(self._ids):
            return np.full(len(hashes), -1, dtype=np.int32)
        places = np.searchsorted(self._hashes, hashes, side="right") - 1
        known = (places >= 0) & (self._hashes[places] == hashes)
        return np.where(known, self._ids[places], np.int32(-1))

    def copies(self, value: int, count: int) -> list[int]:
        """Blocks with this hash, at most `count`, last added first."""
        self._merge()
        start, stop = (
            int(np.searchsorted(self._hashes, np.uint64(value), side=side))
            for side in ("left", "right")
        )
        found: list[int] = self._ids[max(start, stop - count) : stop][::-1].tolist()
        return found

    def check_integrity(self, blocks: list[int], hashes: Hashes) -> None:
        """Exactly these blocks are in it, each under its hash."""
        self._merge()
        assert (self._hashes[:-1] <= self._hashes[1:]).all(), "the hashes are not sorted"
        found = dict(zip(self._ids.tolist(), self._hashes.tolist(), strict=True))
        assert len(found) == len(self._ids) and found == dict(zip(blocks, hashes.tolist()))

    def _merge(self) -> None:
        """A stable sort of what is sorted but for its end takes little more than one pass."""
        if self._removed:
            kept = ~np.isin(self._ids, np.fromiter(self._removed, dtype=np.int32))
            self._hashes, self._ids = self._hashes[kept], self._ids[kept]
            self._removed.clear()
        if self._added:
            new = np.fromiter(self._added.values(), dtype=np.uint64, count=len(self._added))
            ids = np.fromiter(self._added, dtype=np.int32, count=len(self._added))
            hashes = np.concatenate((self._hashes, new))
            order = np.argsort(hashes, kind="stable")
            self._hashes, self._ids = hashes[order], np.concatenate((self._ids, ids))[order]
            self._added.clear()
