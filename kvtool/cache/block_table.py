"""The block table of one request in one layer group.

An entry `(block_id, offset, start, length, delta)` says: slot `offset + i` of the block holds
the KV of position `start + i`, for `i < length`; `delta = start - (home + offset)` where `home`
is the position that slot 0 of the block was rotated for. Entries are sorted and tile
`[0, num_tokens)`. An ordinary entry has offset 0, delta 0 and, but for the last, full length.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

ENTRY_FIELDS = 5


class Entry(NamedTuple):
    block_id: int
    offset: int
    start: int
    length: int
    delta: int


class BlockTable:
    """Entries as rows of one growing int32 array [num_entries, 5]; the manager alone changes it."""

    def __init__(self) -> None:
        self._rows = np.empty((4, ENTRY_FIELDS), dtype=np.int32)
        self.num_entries = 0
        self.num_tokens = 0

    @property
    def entries(self) -> npt.NDArray[np.int32]:
        """A view, int32 [num_entries, 5]; copy it to keep it across a step."""
        return self._rows[: self.num_entries]

    @property
    def block_ids(self) -> list[int]:
        ids: list[int] = self.entries[:, 0].tolist()
        return ids

    @property
    def last_block(self) -> int:
        return self.block_id(self.num_entries - 1)

    def block_id(self, index: int) -> int:
        return int(self._rows[index, 0])

    def entry(self, index: int) -> Entry:
        return Entry(*self.entries[index].tolist())

    def ids(self, first: int, end: int) -> npt.NDArray[np.int64]:
        """Block ids of entries [first, end), int64, as a copy."""
        return self.entries[first:end, 0].astype(np.int64)

    def extend(self, block_ids: npt.ArrayLike, num_tokens: int, block_size: int) -> None:
        """Cover [0, num_tokens): fill the last entry, then append ordinary ones.

        block_ids: the further blocks this needs, no more and no fewer.
        """
        first, end = self.num_entries, -(-num_tokens // block_size)
        if end > len(self._rows):
            rows = np.empty((max(end, 2 * len(self._rows)), ENTRY_FIELDS), dtype=np.int32)
            rows[:first] = self._rows[:first]
            self._rows = rows
        if first:
            self._rows[first - 1, 3] = block_size
        if end > first:
            rows = self._rows[first:end]
            rows[:] = (0, 0, 0, block_size, 0)
            rows[:, 0] = block_ids
            rows[:, 2] = np.arange(first * block_size, end * block_size, block_size)
        self._rows[end - 1, 3] = num_tokens - (end - 1) * block_size
        self.num_entries = end
        self.num_tokens = num_tokens

    def replace_block(self, index: int, block_id: int) -> None:
        """Point an entry at another block that holds the same KV in the same slots."""
        self._rows[index, 0] = block_id

    def cut(self, num_entries: int, block_size: int) -> None:
        """Keep the first `num_entries` entries, all of them full."""
        self.num_entries = num_entries
        self.num_tokens = num_entries * block_size

    def clear(self) -> None:
        self.num_entries = 0
        self.num_tokens = 0

    def slots(self, start: int, end: int, block_size: int) -> npt.NDArray[np.int64]:
        """Slots `block_id * block_size + offset` of positions [start, end), int64."""
        positions = np.arange(start, end, dtype=np.int64)
        rows = self.entries[np.searchsorted(self.entries[:, 2], positions, side="right") - 1]
        return rows[:, 0].astype(np.int64) * block_size + rows[:, 1] + positions - rows[:, 2]

    def check_integrity(self) -> None:
        """Entries are sorted and tile [0, num_tokens)."""
        end = 0
        for _, _, start, length, _ in self.entries.tolist():
            assert start == end and length > 0, f"entry at {start} does not continue {end}"
            end += length
        assert end == self.num_tokens, f"entries end at {end}, not {self.num_tokens}"
