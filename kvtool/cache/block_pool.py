"""The blocks of one layer group: who holds them, what they contain, how they were used."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from kvtool.cache.eviction import BlockUse

Tokens = npt.NDArray[np.int32]
BlockIds = npt.NDArray[np.int64]


class BlockPool:
    """A struct of arrays, one row a block; 48 bytes a block beside the tokens.

    A block is *empty* (in the free list), *held* (ref_count > 0), or *cached and unreferenced*:
    free to be evicted, but with its contents intact until it is handed out again.

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
        self.last_use = np.zeros(num_blocks, dtype=np.int64)
        self.created = np.zeros(num_blocks, dtype=np.int64)
        self.hits = np.zeros(num_blocks, dtype=np.int32)
        self.priority = np.zeros(num_blocks, dtype=np.int32)
        self.num_unreferenced = 0  # cached and not held
        self.peak_held = 0
        # Free list: blocks that came back, a heap, then all from _first_unused on.
        self._returned: list[int] = []
        self._first_unused = 0
        # The same memory for reading one value: half the cost of a numpy scalar.
        self.num_tokens_of = self.num_tokens.data
        self.parent_of = self.parent.data
        self.num_children_of = self.num_children.data
        self.home_of = self.home.data
        self.ref_count_of = self.ref_count.data
        self._last_use_of = self.last_use.data
        self._created_of = self.created.data
        self._hits_of = self.hits.data
        self._priority_of = self.priority.data

    @property
    def num_free(self) -> int:
        """Empty blocks."""
        return len(self._returned) + self.num_blocks - self._first_unused

    @property
    def num_available(self) -> int:
        """Blocks that can be handed out: empty or cached and unreferenced."""
        return self.num_free + self.num_unreferenced

    @property
    def num_held(self) -> int:
        return self.num_blocks - self.num_available

    def allocate(self, count: int) -> BlockIds:
        """`count` empty blocks, lowest ids first, one reference each."""
        assert count <= self.num_free, f"{count} blocks wanted, {self.num_free} are empty"
        if count >= len(self._returned):
            blocks = sorted(self._returned)
            self._returned.clear()
            end = self._first_unused + count - len(blocks)
            blocks.extend(range(self._first_unused, end))
            self._first_unused = end
        else:
            blocks = [heappop(self._returned) for _ in range(count)]
        ids = np.array(blocks, dtype=np.int64)
        self.ref_count[ids] = 1
        self.peak_held = max(self.peak_held, self.num_held)
        return ids

    def touch(self, blocks: BlockIds) -> None:
        """One more reference for each of these cached blocks (all different)."""
        references = self.ref_count[blocks]
        self.num_unreferenced -= len(blocks) - int(np.count_nonzero(references))
        self.ref_count[blocks] = references + 1
        self.peak_held = max(self.peak_held, self.num_held)

    def free(self, blocks: BlockIds) -> list[int]:
        """Drop one reference of each (all different); what is not cached is empty at zero.

        Returns the blocks that may be evicted from now on.
        """
        references = self.ref_count[blocks] - 1
        self.ref_count[blocks] = references
        idle = blocks[references == 0]
        cached = self.num_tokens[idle] > 0
        num_cached = int(np.count_nonzero(cached))
        self.num_unreferenced += num_cached
        if num_cached < len(idle):
            for block in idle[~cached].tolist():
                heappush(self._returned, block)
        evictable: list[int] = idle[cached & (self.num_children[idle] == 0)].tolist()
        return evictable

    def store(self, blocks: BlockIds, tokens: Tokens, parent: int) -> None:
        """Contents of a run of held blocks, each the parent of the next.

        tokens: int32 [len(blocks), num_tokens].
        """
        num_tokens = tokens.shape[1]
        if num_tokens == self.block_size:
            self.tokens[blocks] = tokens
        else:
            self.tokens[blocks, :num_tokens] = tokens
        self.num_tokens[blocks] = num_tokens
        self.parent[blocks[1:]] = blocks[:-1]
        self.parent_of[blocks[0]] = parent
        self.num_children[blocks] = 1
        self.num_children_of[blocks[-1]] = 0
        home = 0
        if parent >= 0:
            self.num_children_of[parent] += 1
            home = self.home_of[parent] + self.block_size
        self.home[blocks] = np.arange(home, home + len(blocks) * self.block_size, self.block_size)

    def forget(self, block: int) -> int | None:
        """Drop the contents of a leaf; returns its parent if that may be evicted now."""
        self.num_tokens_of[block] = 0
        if self.ref_count_of[block] == 0:
            self.num_unreferenced -= 1
            heappush(self._returned, block)
        parent = self.parent_of[block]
        if parent < 0:
            return None
        num_children = self.num_children_of[parent] - 1
        self.num_children_of[parent] = num_children
        return None if num_children or self.ref_count_of[parent] else parent

    def start_use(self, blocks: BlockIds, now: int, priority: int) -> None:
        """These blocks enter the cache."""
        self.last_use[blocks] = now
        self.created[blocks] = now
        self.hits[blocks] = 0
        self.priority[blocks] = priority

    def hit(self, blocks: BlockIds, priority: int) -> None:
        """A request found these blocks in the cache."""
        self.hits[blocks] += 1
        if priority:
            self.priority[blocks] = np.maximum(self.priority[blocks], priority)

    def use(self, block: int) -> BlockUse:
        return BlockUse(
            self._last_use_of[block],
            self._created_of[block],
            self._hits_of[block],
            self._priority_of[block],
        )

    def is_cached(self, block: int) -> bool:
        return self.num_tokens_of[block] > 0

    def is_evictable(self, block: int) -> bool:
        """Cached, not held, and without cached successors."""
        return (
            self.ref_count_of[block] == 0
            and self.num_tokens_of[block] > 0
            and self.num_children_of[block] == 0
        )

    def check_integrity(self, holders: Mapping[int, int]) -> None:
        """holders: block id -> number of live references. Every counter is recomputed."""
        expected = np.zeros(self.num_blocks, dtype=np.int32)
        for block, count in holders.items():
            expected[block] = count
        wrong = np.flatnonzero(expected != self.ref_count).tolist()
        assert not wrong, f"blocks {wrong}: reference counts differ from their holders"
        cached = self.num_tokens > 0
        unreferenced = int(np.count_nonzero(cached & (expected == 0)))
        assert unreferenced == self.num_unreferenced
        empty = set(self._returned) | set(range(self._first_unused, self.num_blocks))
        assert len(empty) == self.num_free, "a block is twice in the free list"
        idle = set(np.flatnonzero(~cached & (expected == 0)).tolist())
        assert empty == idle, f"free list {sorted(empty)} is not the empty blocks {sorted(idle)}"
        held = int(np.count_nonzero(expected))
        assert self.num_free + held + unreferenced == self.num_blocks
        assert held == self.num_held <= self.peak_held
