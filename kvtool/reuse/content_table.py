"""From a 64-bit key to the blocks that have it: a hash table of linked lists over block ids."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kvtool.cache.block_pool import BlockIds
from kvtool.reuse.rolling_hash import Hashes

MAX_COPIES = 8  # of one content, that are looked at
# A list is searched no further. Lists are short unless thousands of blocks have one key; then
# this keeps a search short, and whoever shares the list with them is found again when used.
MAX_STEPS = 64

# key = (content hash + namespace id * one factor) * another: the table uses the upper bits.
_NAMESPACE_FACTOR = np.uint64(0xD6E8FEB86659FD93)
_SPREAD = np.uint64(0xFF51AFD7ED558CCD)


def content_keys(hashes: Hashes, root: int | npt.NDArray[np.int32]) -> Hashes:
    """Keys of blocks with these content hashes in the namespaces `root` (see `Roots`)."""
    roots = np.asarray(root, dtype=np.int64).reshape(-1).astype(np.uint64)
    keys: Hashes = (hashes + roots * _NAMESPACE_FACTOR) * _SPREAD
    return keys


class ContentTable:
    """Doubly linked lists in arrays, at most 32 bytes a block; the last used block is in front.

    Node `b` < num_blocks is a block, node num_blocks + i the head of list i, which closes the
    ring: linking and unlinking know no special case. A block in no list is a ring of its own.
    """

    def __init__(self, num_blocks: int) -> None:
        self._num_blocks = num_blocks
        bits = max(1, (num_blocks - 1).bit_length())
        self._shift = np.uint64(64 - bits)
        self._keys = np.zeros(num_blocks, dtype=np.uint64)
        self._next = np.arange(num_blocks + (1 << bits), dtype=np.int32)
        self._previous = self._next.copy()
        # The same memory for reading one value: half the cost of a numpy scalar.
        self._key_of = self._keys.data
        self._next_of = self._next.data
        self._previous_of = self._previous.data

    def add(self, blocks: BlockIds, keys: Hashes) -> None:
        self._keys[blocks] = keys
        self._link(blocks)

    def touch(self, blocks: BlockIds) -> None:
        """These blocks are used now. Of those with one key the first given comes first."""
        for block in blocks.tolist():
            self.remove(block)
        self._link(blocks)

    def remove(self, block: int) -> None:
        before, after = self._previous_of[block], self._next_of[block]
        self._next_of[before], self._previous_of[after] = after, before
        self._next_of[block] = self._previous_of[block] = block

    def _link(self, blocks: BlockIds) -> None:
        heads = self._heads(self._keys[blocks])
        for block, head in zip(blocks[::-1].tolist(), heads[::-1].tolist()):
            after = self._next_of[head]
            self._next_of[head] = self._previous_of[after] = block
            self._previous_of[block], self._next_of[block] = head, after

    def newest(self, keys: Hashes) -> npt.NDArray[np.int32]:
        """For every key the block with it that was used last, or -1."""
        found = np.full(len(keys), -1, dtype=np.int32)
        pending, nodes = np.arange(len(keys)), self._next[self._heads(keys)]
        for _ in range(MAX_STEPS):
            inside = nodes < self._num_blocks
            pending, nodes = pending[inside], nodes[inside]
            if not len(nodes):
                break
            same = self._keys[nodes] == keys[pending]
            found[pending[same]] = nodes[same]
            pending, nodes = pending[~same], self._next[nodes[~same]]
        return found

    def copies(self, block: int) -> Iterator[int]:
        """`block` and what has its key and was used before it, last used first."""
        key, node = self._key_of[block], block
        for _ in range(MAX_STEPS):
            if self._key_of[node] == key:
                yield node
            node = self._next_of[node]
            if node >= self._num_blocks:
                break

    def _heads(self, keys: Hashes) -> BlockIds:
        heads: BlockIds = (keys >> self._shift).astype(np.int64) + self._num_blocks
        return heads

    def check_integrity(self, blocks: BlockIds, keys: Hashes) -> None:
        """Exactly these blocks are in the table, each under its key."""
        assert (self._keys[blocks] == keys).all(), "a block is kept under another key"
        heads = dict(zip(blocks.tolist(), self._heads(keys).tolist()))
        found = {}
        for head in range(self._num_blocks, len(self._next)):
            ring = self._ring(head)
            found.update(dict.fromkeys(ring[1:-1], head))
            assert all(self._previous_of[after] == node for node, after in pairwise(ring))
        assert found == heads, "the lists differ from the indexed blocks"

    def _ring(self, head: int) -> list[int]:
        ring = [head, self._next_of[head]]
        while ring[-1] != head:
            ring.append(self._next_of[ring[-1]])
        return ring
