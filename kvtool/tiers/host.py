"""Host memory as a tier: an arena of fixed slots, the least recently used block dropped first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence, Set
from concurrent.futures import Future

import numpy as np
import numpy.typing as npt

from kvtool.cache.backing import Run, StoredBlock
from kvtool.cache.block_hash import token_bytes
from kvtool.cache.block_pool import Tokens
from kvtool.cache.group import GroupSpec
from kvtool.tiers.host_index import HostBlock, HostIndex
from kvtool.tiers.host_views import HostViews
from kvtool.tiers.memory import BlockViews
from kvtool.tiers.text.listing import Changes
from kvtool.tiers.tier import Missing, Part, Stored


class HostTier:
    """A slot holds one block, all its groups one behind the other.

    The system commits the arena's memory as slots are first written. Copies run outside the lock:
    a slot that is written is not in the index yet, one that is read is not dropped.

    spill: gets a block that is about to be dropped and is not kept below. removed: gets the keys
    of dropped blocks. Both are called by the thread that puts.
    """

    name = "host"

    def __init__(self, num_bytes: int, groups: tuple[GroupSpec, ...], block_size: int) -> None:
        self._groups = groups
        self._block_size = block_size
        self._ends = np.cumsum([0, *(group.block_bytes(block_size) for group in groups)]).tolist()
        self.num_slots = num_bytes // self._ends[-1]
        self._arena = np.empty((self.num_slots, self._ends[-1]), dtype=np.uint8)
        self._free = list(range(self.num_slots - 1, -1, -1))
        self._index = HostIndex()
        self._orphans: set[int] = set()  # slots of removed blocks that may still be read
        self._num_writing = 0
        self._lock = threading.Lock()
        self.spill: Callable[[Run, BlockViews], Stored] | None = None
        self.removed: Callable[[Sequence[bytes]], None] | None = None

    def describe(self, namespace: bytes, fields: Mapping[str, object]) -> None:
        """Nobody looks into this memory from outside."""

    def contains(self, keys: Sequence[bytes], tokens: Tokens) -> list[object]:
        with self._lock:
            return list(self._index.find(keys, tokens))

    def extend(self, parent: bytes, tokens: Tokens) -> Part | None:
        with self._lock:
            block, length = self._index.longest(parent, tokens)
        return None if block is None else Part(block.key, length, block)

    def text_changes(self, namespace: bytes, known: Set[Hashable], state: object) -> Changes:
        """See `ListsText`; handles are keys."""
        with self._lock:
            return self._index.text_changes(namespace, known, state)

    def get(
        self, blocks: Sequence[StoredBlock], views: BlockViews, arrived: Callable[[int], None]
    ) -> None:
        """Every layer arrives when all blocks are copied: there is nothing to wait for."""
        held = self._start_reading(blocks)
        try:
            for index, block in enumerate(held):
                for group, part in enumerate(self._slot(block.slot)):
                    views.block(group, index)[:] = part.data
        finally:
            self._stop_reading(held)
        for layer in range(sum(len(group.layers) for group in self._groups)):
            arrived(layer)

    def put(self, run: Run, views: BlockViews) -> Stored:
        """All blocks, or as many leading ones as there is room for.

        Room is never made by dropping what the run continues: its blocks would be out of reach.
        """
        with self._lock:
            self._index.touch(run.parent)
        spared = {run.parent, *run.keys}
        num_stored = 0
        for index, key in enumerate(run.keys):
            if self._touch(key):
                continue
            slot = self._take_slot(spared)
            if slot is None:
                return self._stored(num_stored, "host memory is full of blocks in use")
            for group, part in enumerate(self._slot(slot)):
                part.data[:] = views.block(group, index)
            num_stored += self._publish(one_block(run, index, self._block_size), slot)
        return self._stored(num_stored)

    def kept_below(self, keys: Sequence[bytes]) -> None:
        """A lower tier has these: they need not be spilled."""
        with self._lock:
            self._index.mark_kept_below(keys)

    def remove(self, keys: Sequence[bytes]) -> int:
        with self._lock:
            removed = [block for key in keys if (block := self._index.remove(key)) is not None]
            for block in removed:
                self._release(block)
        self._report_removed(removed)
        return len(removed)

    def check_integrity(self) -> None:
        with self._lock:
            used = self._index.check_integrity()
            assert not used & set(self._free) and not used & self._orphans
            known = len(used) + len(self._free) + len(self._orphans) + self._num_writing
            assert known == self.num_slots, f"{known} of {self.num_slots} slots are accounted for"

    def close(self) -> None:
        self.remove(self._index.keys())

    def _slot(self, slot: int) -> list[npt.NDArray[np.uint8]]:
        row = self._arena[slot]
        return [row[start:end] for start, end in zip(self._ends, self._ends[1:])]

    def _stored(self, num_blocks: int, reason: str | None = None) -> Stored:
        return Stored(num_blocks, num_blocks * self._ends[-1], reason)

    def _touch(self, key: bytes) -> bool:
        with self._lock:
            self._index.touch(key)
            return key in self._index

    def _take_slot(self, spared: Collection[bytes]) -> int | None:
        """An empty slot, if need be that of a block that is not `spared`, nor in front of one."""
        while True:
            with self._lock:
                if self._free:
                    self._num_writing += 1
                    return self._free.pop()
                victim = self._index.remove_oldest(spared)
                if victim is None:
                    return None
                self._orphans.add(victim.slot)
            self._spill(victim)
            self._report_removed([victim])

    def _spill(self, victim: HostBlock) -> None:
        """Its slot is empty when the lower tier has what it wants of it."""
        unfinished: Future[object] | None = None
        if self.spill is not None and not victim.is_kept_below:
            blocks = [[part.data] for part in self._slot(victim.slot)]
            unfinished = self.spill(victim.run, HostViews(blocks, self._groups)).unfinished
        if unfinished is None:
            self._give_back(victim.slot)
        else:
            unfinished.add_done_callback(lambda _: self._give_back(victim.slot))

    def _give_back(self, slot: int) -> None:
        with self._lock:
            self._orphans.remove(slot)
            self._free.append(slot)

    def _publish(self, run: Run, slot: int) -> bool:
        with self._lock:
            self._num_writing -= 1
            if run.keys[0] in self._index:  # another thread was faster
                self._free.append(slot)
                return False
            self._index.add(HostBlock(run, token_bytes(run.tokens), slot))
            return True

    def _start_reading(self, blocks: Sequence[StoredBlock]) -> list[HostBlock]:
        held: list[HostBlock] = []
        with self._lock:
            for block in blocks:
                if not (isinstance(block.place, HostBlock) and self._index.holds(block.place)):
                    raise Missing("a block was dropped from host memory before it was read")
                held.append(block.place)
            for place in held:
                place.readers += 1
        return held

    def _stop_reading(self, held: Sequence[HostBlock]) -> None:
        with self._lock:
            for block in held:
                block.readers -= 1
                if not block.readers and block.slot in self._orphans:
                    self._orphans.remove(block.slot)
                    self._free.append(block.slot)

    def _release(self, block: HostBlock) -> None:
        if block.readers:
            self._orphans.add(block.slot)
        else:
            self._free.append(block.slot)

    def _report_removed(self, blocks: Sequence[HostBlock]) -> None:
        full = [block.key for block in blocks if len(block.run.tokens) == self._block_size]
        if full and self.removed is not None:
            self.removed(full)


def one_block(run: Run, index: int, block_size: int) -> Run:
    """Block `index` of a run as a run of its own; its tokens as a copy, and no more."""
    start = index * block_size
    return run._replace(
        parent=run.keys[index - 1] if index else run.parent,
        keys=(run.keys[index],),
        tokens=run.tokens[start : start + block_size].copy(),
        home=run.home + start,
        before=None,
    )
