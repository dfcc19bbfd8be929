"""The block table of one request in one layer group.

An entry `(block_id, offset, start, length, delta)` says: slot `offset + i` of the block holds
the KV of position `start + i`, for `i < length`; `delta = start - (home + offset)` where `home`
is the position that slot 0 of the block was rotated for. Entries are sorted and tile
`[0, num_tokens)`.

    own blocks                   | a run's               | own blocks
    [.... .... ..               ][  .. .... .           ][.... ....
    offset 0, delta 0, full but    any offset, delta       as in front; slot 0 at the first
    for the last                                           position behind the run

A request without runs has own blocks only, its entry i at position i * block_size.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvtool.cache.block_pool import BlockIds
from kvtool.reuse.run import Run

ENTRY_FIELDS = 5
_NO_IDS: BlockIds = np.empty(0, dtype=np.int64)
_NO_ROWS = np.empty((0, ENTRY_FIELDS), dtype=np.int32)


class Entry(NamedTuple):
    block_id: int
    offset: int
    start: int
    length: int
    delta: int


class BlockTable:
    """The manager alone changes it. Entries are block ids until somebody asks for their rows."""

    def __init__(self) -> None:
        self._ids = _NO_IDS  # never changed in place
        self.num_tokens = 0
        # Behind the last run: the first entry of own blocks, and its position.
        self._first = 0
        self._origin = 0
        self._runs: list[tuple[int, int]] = []  # entries [first, end) of each
        # A growing int32 array [n, 5], whose first _num_rows rows are written.
        self._rows = _NO_ROWS
        self._num_rows = 0
        self._block_size = 1

    @property
    def num_entries(self) -> int:
        return len(self._ids)

    @property
    def entries(self) -> npt.NDArray[np.int32]:
        """A view, int32 [num_entries, 5]; copy it to keep it across a step."""
        if self._num_rows < len(self._ids):
            self._write_own_rows()
        return self._rows[: self._num_rows]

    @property
    def block_ids(self) -> list[int]:
        ids: list[int] = self._ids.tolist()
        return ids

    @property
    def last_block(self) -> int:
        return self.block_id(self.num_entries - 1)

    def block_id(self, index: int) -> int:
        return int(self._ids[index])

    def entry(self, index: int) -> Entry:
        return Entry(*self.entries[index].tolist())

    def ids(self, first: int, end: int) -> BlockIds:
        """Block ids of entries [first, end), int64; not to be changed."""
        return self._ids[first:end]

    def own_ids(self) -> BlockIds:
        """Block ids of all entries but those of runs, int64; not to be changed."""
        if not self._runs:
            return self._ids
        return np.delete(self._ids, np.concatenate([np.arange(*run) for run in self._runs]))

    def num_filled(self, block_size: int) -> int:
        """Slots in use of a last own block that has others free, else 0."""
        return (self.num_tokens - self._origin) % block_size

    def extend(self, block_ids: npt.ArrayLike, num_tokens: int, block_size: int) -> None:
        """Cover [0, num_tokens) with own blocks: fill the last one, then append.

        block_ids: the further blocks this needs, no more and no fewer; not to be changed.
        """
        self._block_size = block_size
        if self._num_rows == len(self._ids) > self._first:
            last = self._num_rows - 1
            length = num_tokens - self._origin - (last - self._first) * block_size
            self._rows[last, 3] = min(length, block_size)
        self._append(block_ids)
        self.num_tokens = num_tokens

    def add_run(self, run: Run, block_size: int) -> None:
        """Cover [0, run.stop), given [0, run.start), with the run's blocks as they are."""
        assert run.start == self.num_tokens, f"{run} does not continue {self.num_tokens}"
        first, end = len(self.entries), self.num_entries + len(run.blocks)
        self._reserve(end)
        rows = self._rows[first:end]
        begin = run.start - run.offset  # the position of slot 0 of the first block
        edges = np.arange(begin, begin + (len(rows) + 1) * block_size, block_size)
        edges[0], edges[-1] = run.start, run.stop
        rows[:, 0] = run.blocks
        rows[0, 1] = run.offset
        rows[:, 2] = edges[:-1]
        rows[:, 3] = np.diff(edges)
        rows[:, 4] = run.delta
        self._append(run.blocks)
        self._runs.append((first, end))
        self._num_rows = self._first = end
        self.num_tokens = self._origin = run.stop

    def own_run(self, start: int, stop: int) -> Run:
        """[start, stop), in own blocks with no run between them, as a run that does not move."""
        starts = self.entries[:, 2]
        first = int(np.searchsorted(starts, start, side="right")) - 1
        end = int(np.searchsorted(starts, stop))
        blocks = tuple(self.ids(first, end).tolist())
        return Run(start, stop, 0, blocks, start - int(starts[first]))

    def replace_block(self, index: int, block_id: int) -> None:
        """Point an entry at another block that holds the same KV in the same slots."""
        self._ids = self._ids.copy()
        self._ids[index] = block_id
        if index < self._num_rows:
            self._rows[index, 0] = block_id

    def cut(self, num_entries: int, block_size: int) -> None:
        """Keep the first `num_entries` entries, all of them own and full."""
        assert not self._runs
        self._ids = self._ids[:num_entries]
        self._num_rows = min(self._num_rows, num_entries)
        self.num_tokens = num_entries * block_size

    def clear(self) -> None:
        self._ids, self._rows = _NO_IDS, _NO_ROWS
        self.num_tokens = self._first = self._origin = self._num_rows = 0
        self._runs.clear()

    def slots(self, positions: BlockIds, block_size: int) -> BlockIds:
        """Slots `block_id * block_size + offset` of these positions (ascending), int64."""
        if not len(positions):
            return positions
        block, offset, start, _, _ = self.entries[-1].tolist()
        if positions[0] >= start:  # a decode
            slots: BlockIds = positions + (block * block_size + offset - start)
            return slots
        rows = self.entries[np.searchsorted(self.entries[:, 2], positions, side="right") - 1]
        return rows[:, 0].astype(np.int64) * block_size + rows[:, 1] + positions - rows[:, 2]

    def _append(self, block_ids: npt.ArrayLike) -> None:
        ids = np.asarray(block_ids, dtype=np.int64)
        if len(ids):
            self._ids = np.concatenate((self._ids, ids)) if len(self._ids) else ids

    def _write_own_rows(self) -> None:
        """Those of the own blocks behind the last run that are not written yet."""
        first, end, size = self._num_rows, self.num_entries, self._block_size
        start = self._origin + (first - self._first) * size
        self._reserve(end)
        rows = self._rows[first:end]  # offset and delta are 0
        rows[:, 0] = self._ids[first:]
        rows[:, 2] = np.arange(start, start + (end - first) * size, size)
        rows[:, 3] = size
        rows[-1, 3] = self.num_tokens - rows[-1, 2]
        self._num_rows = end

    def _reserve(self, num_rows: int) -> None:
        if num_rows > len(self._rows):
            rows = np.zeros((max(num_rows, 2 * len(self._rows)), ENTRY_FIELDS), dtype=np.int32)
            rows[: self._num_rows] = self._rows[: self._num_rows]
            self._rows = rows

    def check_integrity(self, block_size: int) -> None:
        """Entries are sorted, tile [0, num_tokens), and stay inside their blocks; own ones begin
        with slot 0 and follow each other without a free slot."""
        end, in_run = 0, {i for run in self._runs for i in range(*run)}
        for i, (_, offset, start, length, delta) in enumerate(self.entries.tolist()):
            assert start == end and length > 0, f"entry at {start} does not continue {end}"
            assert offset + length <= block_size, f"entry at {start} leaves its block"
            end += length
            if i not in in_run:
                assert offset == delta == 0, f"own entry at {start} is not ordinary"
                is_last = i + 1 == self.num_entries or i + 1 in in_run
                assert length == block_size or is_last, f"free slots behind {end}"
        assert end == self.num_tokens, f"entries end at {end}, not {self.num_tokens}"
