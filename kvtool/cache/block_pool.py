"""The blocks of one layer group: who holds them, what they contain, how they were used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from kvtool.cache.eviction import UNUSED, BlockUse

Tokens = npt.NDArray[np.int32]
BlockIds = npt.NDArray[np.int64]

_NONE: Mapping[int, int] = MappingProxyType({})


class BlockPool:
    """A struct of arrays, one row a block; 32 bytes a block beside the tokens, 36 with
    weak references. Blocks that were used alike share one `BlockUse`.

    A block is *empty* (in the free list), *held* (ref_count > 0), or *cached and unreferenced*:
    free to be evicted, but with its contents intact until it is handed out again. Some of its
    references may be *weak*: whoever has them gives them up where blocks are scarce.

    Contents, set by the prefix index: `tokens` int32 [num_blocks, block_size]; `num_tokens`, the
    leading slots they are valid for (0: the block is not cached); `parent`, the cached block in
    front of it, or the negative id of a namespace (see `index.Roots`); `num_children`, cached
    blocks behind it; `home`, the position slot 0 was computed at.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.tokens = np.zeros((num_blocks, block_size), dtype=np.int32)
        self.num_tokens = np.zeros(num_blocks, dtype=np.int32)
        self.parent = np.zeros(num_blocks, dtype=np.int32)
        self.num_children = np.zeros(num_blocks, dtype=np.int32)
        self.home = np.zeros(num_blocks, dtype=np.int32)
        self.ref_count = np.zeros(num_blocks, dtype=np.int32)
        self.weak_count = np.empty(0, dtype=np.int32)  # of ref_count; no rows before the first
        self._uses = [UNUSED] * num_blocks
        self.num_idle = num_blocks  # without a reference: empty, or cached and unreferenced
        self.num_weak = 0  # blocks held by weak references alone
        self._num_weak_references, self.peak_held = 0, 0
        # Free list: blocks that came back, then all from _first_unused on. Those of evicted runs
        # are appended, as nearly always all of them are taken at once.
        self._returned: list[int] = []
        self._is_heap, self._first_unused = True, 0
        # The same memory. A block's tokens as one item, which numpy copies as a whole:
        self.token_rows = self.tokens.view(np.dtype((np.void, 4 * block_size)))[:, 0]
        # For reading one value, at half the cost of a numpy scalar:
        self.num_tokens_of = self.num_tokens.data
        self.parent_of = self.parent.data
        self.num_children_of = self.num_children.data
        self.home_of = self.home.data
        self.ref_count_of = self.ref_count.data

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
        blocks = self.take(count)
        self.ref_count[blocks] = 1
        self.num_idle -= count
        self.note_held()
        return blocks

    def take(self, count: int) -> BlockIds:
        """The same without a reference: they are to be cached, or given back, at once."""
        assert count <= self.num_free, f"{count} blocks wanted, {self.num_free} are empty"
        if count >= len(self._returned):
            blocks = sorted(self._returned)
            self._returned.clear()
            end = self._first_unused + count - len(blocks)
            blocks.extend(range(self._first_unused, end))
            self._first_unused = end
        else:
            if not self._is_heap:
                heapify(self._returned)
            blocks = [heappop(self._returned) for _ in range(count)]
        self._is_heap = True
        return np.array(blocks, dtype=np.int64)

    def give_back(self, blocks: BlockIds) -> None:
        """They were taken, and hold nothing."""
        for block in blocks.tolist():
            heappush(self._returned, block)

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
        """Drop one reference of each (all different); what is not cached is empty at zero.

        Returns the blocks that may be evicted from now on.
        """
        references = self.ref_count[blocks] - 1
        self._set_references(blocks, references, -1, weak)
        idle = blocks[references == 0] if np.count_nonzero(references) else blocks
        self.num_idle += len(idle)
        cached = self.num_tokens[idle]
        if np.count_nonzero(cached) < len(idle):
            for block in idle[cached == 0].tolist():
                heappush(self._returned, block)
            idle = idle[cached > 0]
        evictable: list[int] = idle[np.logical_not(self.num_children[idle])].tolist()
        return evictable

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

    def store(self, blocks: BlockIds, tokens: Tokens, parent: int) -> None:
        """Contents of a run of held blocks, each the parent of the next.

        tokens: int32 [len(blocks), num_tokens].
        """
        num_tokens = tokens.shape[1]
        if num_tokens == self.block_size:
            self.token_rows[blocks] = self.rows_of(tokens)
        else:
            self.tokens[blocks, :num_tokens] = tokens
        self.num_tokens[blocks] = num_tokens
        self.parent[blocks[1:]] = blocks[:-1].astype(np.int32)
        self.parent_of[blocks[0]] = parent
        self.num_children[blocks] = 1
        self.num_children_of[blocks[-1]] = 0
        if parent >= 0:
            self.num_children_of[parent] += 1
        home = self.home_of[parent] + self.block_size if parent >= 0 else 0
        end = home + len(blocks) * self.block_size
        self.home[blocks] = np.arange(home, end, self.block_size, dtype=np.int32)

    def rows_of(self, tokens: Tokens) -> npt.NDArray[np.void]:
        """Full blocks, int32 [n, block_size], as items of `token_rows`."""
        return np.ascontiguousarray(tokens).view(self.token_rows.dtype)[:, 0]

    def forget(self, block: int) -> int | None:
        """Drop the contents of a leaf; returns its parent if that may be evicted now."""
        self.num_tokens_of[block] = 0
        if self.ref_count_of[block] == 0:
            heappush(self._returned, block)
        return self._lose_child(self.parent_of[block])

    def _lose_child(self, parent: int) -> int | None:
        """The parent, if that may be evicted now."""
        if parent < 0:
            return None
        num_children = self.num_children_of[parent] - 1
        self.num_children_of[parent] = num_children
        return None if num_children or self.ref_count_of[parent] else parent

    def forget_run(self, blocks: list[int]) -> int | None:
        """The same for unreferenced blocks: a leaf, then each the parent of the one before it,
        which is its only child. Returns the last one's parent if that may be evicted now."""
        num_tokens_of = self.num_tokens_of
        for block in blocks:
            num_tokens_of[block] = 0
        self._returned += blocks
        self._is_heap = False
        return self._lose_child(self.parent_of[blocks[-1]])

    def idle_run(self, leaf: int, limit: int) -> list[int]:
        """An evictable block and at most `limit - 1` in front of it, nearest first, that were used
        exactly like it and that nothing but each other keeps from being evicted."""
        parent_of, ref_count_of = self.parent_of, self.ref_count_of
        num_children_of, uses = self.num_children_of, self._uses
        use = uses[leaf]
        run, block = [leaf], leaf
        for _ in range(limit - 1):
            block = parent_of[block]
            if (
                block < 0
                or (uses[block] is not use and uses[block] != use)
                or num_children_of[block] != 1
                or ref_count_of[block]
            ):
                break
            run.append(block)
        return run

    def use(self, block: int) -> BlockUse:
        return self._uses[block]

    def start_use(self, blocks: BlockIds, now: int, priority: int) -> None:
        """These blocks enter the cache."""
        use, uses = BlockUse(now, now, 0, priority), self._uses
        for block in blocks.tolist():
            uses[block] = use

    def hit(self, blocks: BlockIds, priority: int, now: int | None = None) -> None:
        """A request found these blocks in the cache. now: and its use of them is over."""

        def change(use: BlockUse) -> BlockUse:
            last_use = use.last_use if now is None else now
            return BlockUse(last_use, use.created, use.hits + 1, max(use.priority, priority))

        self._change_uses(blocks, change)

    def end_use(self, blocks: BlockIds, now: int) -> None:
        """They were in use until now."""
        self._change_uses(blocks, lambda use: use._replace(last_use=now))

    def _change_uses(self, blocks: BlockIds, change: Callable[[BlockUse], BlockUse]) -> None:
        """Neighbours that share their use go on sharing it."""
        uses = self._uses
        old, new = None, UNUSED
        for block in blocks.tolist():
            if uses[block] is not old:
                old = uses[block]
                new = change(old)
            uses[block] = new

    def is_cached(self, block: int) -> bool:
        return self.num_tokens_of[block] > 0

    def is_evictable(self, block: int) -> bool:
        """Cached, not held, and without cached successors."""
        return (
            self.ref_count_of[block] == 0
            and self.num_tokens_of[block] > 0
            and self.num_children_of[block] == 0
        )

    def check_integrity(self, holders: Mapping[int, int], weak: Mapping[int, int] = _NONE) -> None:
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
        cached = self.num_tokens > 0
        unreferenced = int(np.count_nonzero(cached & (expected == 0)))
        assert unreferenced == self.num_unreferenced
        empty = set(self._returned) | set(range(self._first_unused, self.num_blocks))
        assert len(empty) == self.num_free, "a block is twice in the free list"
        idle = set(np.flatnonzero(~cached & (expected == 0)).tolist())
        assert empty == idle, f"free list {sorted(empty)} is not the empty blocks {sorted(idle)}"
        held = int(np.count_nonzero(expected)) - self.num_weak
        assert self.num_available + held == self.num_blocks
        assert held == self.num_held <= self.peak_held
