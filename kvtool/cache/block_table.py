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

    def entry(self, index: int) -> Entry:
        return Entry(*self.entries[index].tolist())

    def append(self, block_id: int, length: int) -> None:
        """One more ordinary entry behind the last token."""
        if self.num_entries == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._rows[self.num_entries] = (block_id, 0, self.num_tokens, length, 0)
        self.num_entries += 1
        self.num_tokens += length

    def grow_last(self, num_tokens: int) -> None:
        self._rows[self.num_entries - 1, 3] += num_tokens
        self.num_tokens += num_tokens

    def replace_block(self, index: int, block_id: int) -> None:
        """Point an entry at another block that holds the same KV in the same slots."""
        self._rows[index, 0] = block_id

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
