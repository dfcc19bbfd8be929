"""The children of each tree node in token order: the longest common prefix is a neighbour."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from kvtool.cache.block_pool import BlockIds, BlockPool, Tokens

_NONE = -1
_MANY = -2


class SortedChildren:
    """Sorted lists of sibling blocks; the usual single child is one int in an array.

    Siblings are ordered by the bytes of their tokens. Every token is four bytes, so this is a
    lexicographic order of token sequences, and no sibling shares a longer prefix with a sequence
    than one of its two neighbours does.
    """

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self._token_bytes = pool.tokens.reshape(-1).data.cast("B")
        self._only = np.full(pool.num_blocks, _NONE, dtype=np.int32)
        self._only_of = self._only.data
        self._many: dict[int, list[int]] = {}  # of blocks with two or more, and of every root

    def children(self, parent: int) -> list[int]:
        if parent >= 0 and (child := self._only_of[parent]) != _MANY:
            return [] if child == _NONE else [child]
        return self._many.get(parent, [])

    def add_run(self, parent: int, blocks: BlockIds) -> None:
        """blocks: new nodes, each the only child of the one in front of it."""
        self._add(parent, int(blocks[0]))
        self._only[blocks[:-1]] = blocks[1:]
        self._only_of[blocks[-1]] = _NONE

    def _add(self, parent: int, block: int) -> None:
        siblings = self.children(parent)
        if parent >= 0 and not siblings:
            self._only_of[parent] = block
            return
        if parent >= 0 and len(siblings) == 1:
            self._only_of[parent] = _MANY
        self._many[parent] = siblings
        key = self._key(block)
        siblings.insert(bisect_left(siblings, key, key=self._key), block)

    def remove(self, parent: int, block: int) -> None:
        if parent >= 0 and self._only_of[parent] == block:
            self._only_of[parent] = _NONE
            return
        siblings = self._many[parent]
        position = bisect_left(siblings, self._key(block), key=self._key)
        assert siblings[position] == block
        del siblings[position]
        if parent >= 0 and len(siblings) == 1:
            self._only_of[parent] = self._many.pop(parent)[0]
        elif not siblings:
            del self._many[parent]

    def remove_run(self, parent: int, blocks: list[int]) -> None:
        """blocks: a leaf, then each the parent of the one before it, its only child."""
        self.remove(parent, blocks[-1])
        self._only[blocks] = _NONE

    def longest_prefix(self, parent: int, tokens: Tokens) -> tuple[int, int]:
        """(block, length): the child that shares the longest prefix with `tokens`.

        Length 0: none does. Of several the first in token order, so that a block that ends with
        the common prefix wins: it can be continued in place where others would be copied.
        """
        siblings = self.children(parent)
        query = np.ascontiguousarray(tokens).tobytes()
        position = bisect_left(siblings, query, key=self._key)
        neighbours = siblings[max(0, position - 1) : position + 1]
        length = max((_common_tokens(self._key(block), query) for block in neighbours), default=0)
        if not length:
            return -1, 0
        return siblings[bisect_left(siblings, query[: 4 * length], key=self._key)], length

    def _key(self, block: int) -> bytes:
        start = block * self._pool.block_size * 4
        return bytes(self._token_bytes[start : start + 4 * self._pool.num_tokens_of[block]])

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """All (parent, child) pairs."""
        for parent in np.flatnonzero(self._only >= 0).tolist():
            yield parent, int(self._only[parent])
        for parent, siblings in self._many.items():
            yield from ((parent, child) for child in siblings)

    def check_integrity(self) -> None:
        many = {parent for parent in self._many if parent >= 0}
        assert many == set(np.flatnonzero(self._only == _MANY).tolist())
        for siblings in self._many.values():
            keys = [self._key(block) for block in siblings]
            assert all(a < b for a, b in pairwise(keys)), f"{siblings} are not in order"


def _common_tokens(a: bytes, b: bytes) -> int:
    """Length in tokens of the common prefix of two token byte strings."""
    size = min(len(a), len(b))
    if a[:size] == b[:size]:
        return size // 4
    return next(i for i in range(size) if a[i] != b[i]) // 4
