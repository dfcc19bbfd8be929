"""Tiers below the pool as a dictionary; copies end when the test says so.

What a save reads is compared with what its blocks held when it began, at its end: a block that
was handed out again in between would show.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kvtool.cache.backing import Load, Save, StoredBlock, Transfer
from kvtool.cache.block_keys import BlockKeys

Contents = list[list[Any]]  # per group, per slot


class Kept(NamedTuple):
    parent: bytes
    tokens: tuple[int, ...]
    contents: Contents


class FakeBacking:
    """memory: per group, slot -> what was written there (see `kv_model.Model`)."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.memory: list[dict[int, Any]] = []
        self.kept: dict[bytes, Kept] = {}
        self.saves: list[tuple[Save, list[Contents]]] = []
        self.runs: list[Save] = []
        self.num_matches = 0

    def match(
        self, keys: BlockKeys, first_block: int, *, whole_blocks: bool
    ) -> tuple[StoredBlock, ...]:
        self.num_matches += 1
        found, position = [], first_block
        while position < keys.num_full_blocks and keys.key(position) in self.kept:
            key = keys.key(position)
            found.append(StoredBlock(key, self.block_size, "host", self.kept[key]))
            position += 1
        part = None if whole_blocks else self._part(keys, position)
        return tuple(found if part is None else [*found, part])

    def _part(self, keys: BlockKeys, position: int) -> StoredBlock | None:
        start = position * self.block_size
        wanted = tuple(keys.tokens[start : start + self.block_size].tolist())
        best, most = None, 0
        for key, kept in self.kept.items():
            length = 0
            while kept.parent == keys.parent(position) and kept.tokens[length : length + 1] == (
                wanted[length : length + 1] or None
            ):
                length += 1
            if length > most:
                best, most = key, length
        return None if best is None else StoredBlock(best, most, "host", self.kept[best])

    def is_promoted(self, block: StoredBlock) -> bool:
        return False

    def computed(self, num_tokens: int, seconds: float) -> None:
        pass

    def save(self, save: Save) -> None:
        self.saves.append((save, self._read(save)))
        self.runs.append(save)
        finish_when_waited_for(save, lambda: self.finish(save))

    def finish(self, save: Save) -> None:
        """Carry out one save."""
        position = next(i for i, (other, _) in enumerate(self.saves) if other is save)
        _, before = self.saves.pop(position)
        blocks = self._read(save)
        assert blocks == before, "a block was handed out while it was copied"
        run, size = save.run, self.block_size
        for index, key in enumerate(run.keys):
            parent = run.keys[index - 1] if index else run.parent
            tokens = tuple(run.tokens[index * size : (index + 1) * size].tolist())
            contents = [slots[: len(tokens)] for slots in blocks[index]]
            assert all(slot is not None for slots in contents for slot in slots), "never written"
            self.kept[key] = Kept(parent, tokens, contents)
        save.end()

    def finish_all(self) -> None:
        for save, _ in list(self.saves):
            self.finish(save)

    def load(self, load: Load) -> None:
        """Write every block of a load."""
        for index, block in enumerate(load.blocks):
            kept = block.place
            assert isinstance(kept, Kept)
            for group, slots in enumerate(kept.contents):
                first = int(load.block_ids[group][index]) * self.block_size
                for offset in range(self.block_size):
                    self.memory[group].pop(first + offset, None)
                for offset, slot in enumerate(slots):
                    self.memory[group][first + offset] = slot

    def check_integrity(self) -> None:
        assert not any(save.has_ended for save, _ in self.saves)

    def _read(self, save: Save) -> list[Contents]:
        return [
            [
                [self.memory[group].get(int(ids[index]) * self.block_size + i) for i in range(size)]
                for group, ids in enumerate(save.block_ids)
            ]
            for index, size in enumerate(self._lengths(save))
        ]

    def _lengths(self, save: Save) -> list[int]:
        ends = np.arange(1, len(save.run.keys) + 1) * self.block_size
        starts = ends - self.block_size
        lengths: list[int] = (np.minimum(ends, len(save.run.tokens)) - starts).tolist()
        return lengths


def finish_when_waited_for(transfer: Transfer, finish: Any) -> None:
    """In these tests there is no other thread: whoever waits makes it end."""

    def wait(timeout_s: float | None = None) -> bool:
        if not transfer.has_ended:
            finish()
        return True

    transfer.wait = wait  # type: ignore[method-assign]
