"""The blocks of one layer group, and who holds them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[np.int32]
BlockIds = npt.NDArray[np.int64]

_NONE: Mapping[int, int] = MappingProxyType({})


class BlockPool:
    """A struct of arrays, one row a block.

    A block is *empty* (in the free list), *held* (ref_count > 0), or *cached and unreferenced*:
    free to be evicted, but with its contents intact until it is handed out again. Some of its
    references may be *weak*: whoever has them gives them up where blocks are scarce.

    What is cached is the business of a `BlockTree`.
    tokens: int32 [num_blocks, block_size], of cached blocks and of others that donate their KV;
    no rows until somebody asks for them.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.tokens = np.empty((0, block_size), dtype=np.int32)
        self.ref_count = np.zeros(num_blocks, dtype=np.int32)
        self.weak_count = np.empty(0, dtype=np.int32)  # of ref_count; no rows before the first
        self.num_idle = num_blocks  # without a reference: empty, or cached and unreferenced
        self.num_weak = 0  # blocks held by weak references alone
        self._num_weak_references, self.peak_held = 0, 0
        # Free list: blocks that came back, then all from _first_unused on.
        self._returned: list[int] = []
        self._is_heap, self._first_unused = True, 0
        self.ref_count_of = self.ref_count.data  # one value at half the cost of a numpy scalar

    @property
    def num_free(self) -> int:
        """Empty blocks."""
        return len(self._returned) + self.num_blocks - self._first_unused

    @property
    def num_unreferenced(self) -> int:
        """Cached blocks that nobody holds."""
        return self.num_idle - self.num_free

    @property
    def num_available(self) -> int:
        """Blocks that can be handed out: empty or cached and unreferenced, now or once all weak
        references are given up."""
        return self.num_idle + self.num_weak

    @property
    def num_held(self) -> int:
        return self.num_blocks - self.num_idle - self.num_weak

    def allocate(self, count: int) -> BlockIds:
        """`count` empty blocks, lowest ids first, one reference each."""
        blocks = np.array(self.take(count), dtype=np.int64)
        self.ref_count[blocks] = 1
        self.num_idle -= count
        self.note_held()
        return blocks

    def take(self, count: int) -> list[int]:
        """The same without a reference: they are to be cached, or given back, at once."""
        if count >= len(self._returned):
            end = self._first_unused + count - len(self._returned)
            assert end <= self.num_blocks, f"{count} blocks wanted, {self.num_free} are empty"
            blocks = sorted(self._returned)
            self._returned.clear()
            blocks.extend(range(self._first_unused, end))
            self._first_unused = end
        else:
            if not self._is_heap:
                heapify(self._returned)
            blocks = [heappop(self._returned) for _ in range(count)]
        self._is_heap = True
        return blocks

    def give_back(self, blocks: list[int]) -> None:
        """Nobody holds them, and they are not cached, now or any more."""
        if self._is_heap and len(blocks) < len(self._returned) // 8:
            for block in blocks:
                heappush(self._returned, block)
        else:  # nearly always all of them are taken at once
            self._returned += blocks
            self._is_heap = False

    def touch(self, blocks: BlockIds, *, weak: bool = False) -> None:
        """One more reference for each of these blocks (all different), which are cached or held."""
        references = self.ref_count[blocks]
        self.num_idle -= len(blocks) - int(np.count_nonzero(references))
        self._set_references(blocks, references + 1, 1, weak)
        self.note_held()

    def pin(self, block: int) -> None:
        """Keep a cached block for a moment, uncounted: until `unpin`."""
        self.ref_count_of[block] += 1

    def unpin(self, block: int) -> None:
        """It is no candidate yet where it was skipped as one."""
        self.ref_count_of[block] -= 1

    def note_held(self, beside: int = 0) -> None:
        """beside: blocks in use without a reference."""
        self.peak_held = max(self.peak_held, self.num_held + beside)

    def free(self, blocks: BlockIds, *, weak: bool = False) -> list[int]:
        """Drop one reference of each (all different). Returns those that nobody holds any more:
        what of them is not cached is to be given back."""
        references = self.ref_count[blocks] - 1
        self._set_references(blocks, references, -1, weak)
        idle = blocks[references == 0] if np.count_nonzero(references) else blocks
        self.num_idle += len(idle)
        freed: list[int] = idle.tolist()
        return freed

    def _set_references(
        self, blocks: BlockIds, references: npt.NDArray[np.int32], change: int, weak: bool
    ) -> None:
        """change: by how much they change."""
        if self._num_weak_references:
            self.num_weak -= self._count_weak(blocks)
        self.ref_count[blocks] = references
        if weak:
            if not len(self.weak_count):
                self.weak_count = np.zeros(self.num_blocks, dtype=np.int32)
            self.weak_count[blocks] += change
            self._num_weak_references += change * len(blocks)
        if weak or self._num_weak_references:
            self.num_weak += self._count_weak(blocks)

    def _count_weak(self, blocks: BlockIds) -> int:
        weak = self.weak_count[blocks]
        return int(np.count_nonzero((weak > 0) & (weak == self.ref_count[blocks])))

    def keep_tokens(self) -> None:
        """From now on."""
        if not len(self.tokens):
            self.tokens = np.zeros((self.num_blocks, self.block_size), dtype=np.int32)

    def store_tokens(self, blocks: list[int], tokens: bytes) -> None:
        """int32, one behind the other; the last block may have fewer."""
        rows = np.zeros((len(blocks), self.block_size), dtype=np.int32)
        rows.data.cast("B")[: len(tokens)] = tokens
        self.tokens[blocks] = rows

    def check_integrity(
        self,
        holders: Mapping[int, int],
        weak: Mapping[int, int] = _NONE,
        cached: Iterable[int] = (),
    ) -> None:
        """block id -> number of live references: all others, and the weak ones. Every counter is
        recomputed."""
        expected, expected_weak = np.zeros((2, self.num_blocks), dtype=np.int32)
        expected_weak[list(weak)] = list(weak.values())
        expected[list(holders)] = list(holders.values())
        expected += expected_weak
        wrong = np.flatnonzero(expected != self.ref_count).tolist()
        assert not wrong, f"blocks {wrong}: reference counts differ from their holders"
        kept = self.weak_count if len(self.weak_count) else np.zeros_like(expected_weak)
        assert (expected_weak == kept).all(), "weak references differ from their holders"
        assert self._num_weak_references == int(expected_weak.sum())
        only_weak = (expected_weak > 0) & (expected_weak == expected)
        assert self.num_weak == int(np.count_nonzero(only_weak))
        is_cached = np.zeros(self.num_blocks, dtype=np.bool_)
        is_cached[list(cached)] = True
        unreferenced = int(np.count_nonzero(is_cached & (expected == 0)))
        assert unreferenced == self.num_unreferenced
        empty = set(self._returned) | set(range(self._first_unused, self.num_blocks))
        assert len(empty) == self.num_free, "a block is twice in the free list"
        idle = set(np.flatnonzero(~is_cached & (expected == 0)).tolist())
        assert empty == idle, f"free list {sorted(empty)} is not the empty blocks {sorted(idle)}"
        held = int(np.count_nonzero(expected)) - self.num_weak
        assert self.num_available + held == self.num_blocks
        assert held == self.num_held <= self.peak_held
