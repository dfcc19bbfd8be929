"""ContentIndex: finds cached blocks by their tokens alone, whatever stands in front of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvtool.cache.block_pool import BlockIds, BlockPool, Tokens
from kvtool.cache.children import SortedChildren
from kvtool.cache.index import Roots
from kvtool.reuse.content_table import MAX_COPIES, ContentTable, content_keys
from kvtool.reuse.donor_source import MIN_CONTEXT_TOKENS
from kvtool.reuse.rolling_hash import block_hashes, window_hashes


class ContentIndex:
    """The exact blocks of one pool by (namespace, content), and the links between them.

    A `DonorSource`. It reads the contents columns of the pool, which the prefix index owns: add a
    block after that index has taken it in, remove it before that index forgets it. Full blocks
    can be found; partly filled ones are only reached from the block in front.
    At most 44 bytes a block beside the lists of siblings.
    """

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self._table = ContentTable(pool.num_blocks)
        self._children = SortedChildren(pool)
        self._roots = Roots()
        # Of every indexed block: its namespace (0: not indexed) and the first block of its chain.
        self._root = np.zeros(pool.num_blocks, dtype=np.int32)
        self._first = np.zeros(pool.num_blocks, dtype=np.int32)
        self._root_of = self._root.data
        self._first_of = self._first.data

    @property
    def block_size(self) -> int:
        return self._pool.block_size

    def add(self, block_ids: BlockIds, namespace: bytes) -> None:
        """Full blocks new in the prefix index, each the parent of the next."""
        self._link(block_ids, namespace)
        hashes = block_hashes(self._pool.tokens[block_ids])
        self._table.add(block_ids, content_keys(hashes, self._root_of[block_ids[0]]))

    def add_partial(self, block_id: int, namespace: bytes) -> None:
        """A partly filled block new in the prefix index."""
        self._link(np.array([block_id]), namespace)

    def _link(self, block_ids: BlockIds, namespace: bytes) -> None:
        first = int(block_ids[0])
        parent = self._pool.parent_of[first]
        if parent < 0:
            parent = root = self._roots.add_child(namespace)
        else:
            root, first = self._root_of[parent], self._first_of[parent]
            assert root == self._roots.find(namespace), "a chain lies in one namespace"
        self._children.add_run(parent, block_ids)
        self._root[block_ids] = root
        self._first[block_ids] = first

    def remove(self, block_id: int) -> None:
        """A leaf, full or partly filled."""
        parent = self._pool.parent_of[block_id]
        if self._pool.num_tokens_of[block_id] == self._pool.block_size:
            self._table.remove(block_id)
        if parent < 0:
            parent = self._root_of[block_id]
            self._roots.remove_child(parent)
        self._children.remove(parent, block_id)
        self._root_of[block_id] = 0

    def touch(self, block_ids: BlockIds) -> None:
        """These full blocks, in the order of their chain, are used now."""
        self._table.touch(block_ids)

    def __contains__(self, block: int) -> bool:
        return self._root_of[block] != 0

    def newest(self, tokens: Tokens, namespace: bytes) -> npt.NDArray[np.int32]:
        hashes = window_hashes(tokens, self.block_size)
        root = self._roots.find(namespace)
        if root is None:
            return np.full(len(hashes), -1, dtype=np.int32)
        found = self._table.newest(content_keys(hashes, root))
        # Another namespace's block can have the same key, but must never be seen.
        return np.where(self._root[found] == root, found, -1)

    def copies(self, block: int) -> list[int]:
        root, home_of = self._root_of[block], self._pool.home_of
        found: list[int] = []
        bare: list[int] = []
        for copy in self._table.copies(block):
            if self._root_of[copy] == root:
                (found if home_of[copy] >= MIN_CONTEXT_TOKENS else bare).append(copy)
                if len(found) == MAX_COPIES:
                    break
        return (found + bare)[:MAX_COPIES]

    def tokens(self, blocks: list[int]) -> Tokens:
        return self._pool.tokens[blocks]

    def home(self, block: int) -> int:
        return self._pool.home_of[block]

    def ancestors(self, block: int, count: int) -> list[int]:
        found: list[int] = []
        parent_of = self._pool.parent_of
        while len(found) < count and (block := parent_of[block]) >= 0:
            found.append(block)
        return found

    def descendants(self, block: int, count: int) -> list[int]:
        found: list[int] = []
        children, num_tokens_of = self._children.children, self._pool.num_tokens_of
        size = self.block_size
        while len(found) < count and len(behind := children(block)) == 1:
            block = behind[0]
            if num_tokens_of[block] < size:
                break
            found.append(block)
        return found

    def longest_child(self, block: int, tokens: Tokens) -> tuple[int, int]:
        return self._children.longest_prefix(block, tokens)

    def first_token(self, block: int) -> int:
        return int(self._pool.tokens[self._first_of[block], 0])

    def context(self, block: int, offset: int, count: int) -> Tokens:
        before = self.ancestors(block, -(-count // self.block_size))
        tokens = self.tokens([*before[::-1], block]).reshape(-1)
        stop = len(before) * self.block_size + offset
        return tokens[max(0, stop - count) : stop]

    def last_use(self, block: int) -> int:
        return self._pool.use(block).last_use

    def num_merged(self, blocks: tuple[int, ...]) -> float:
        return 1.0

    def check_integrity(self) -> None:
        """Exactly the cached blocks of the pool are indexed, with their contents and links."""
        pool, root, first = self._pool, self._root, self._first
        cached = np.flatnonzero(pool.num_tokens > 0)
        assert (np.flatnonzero(root) == cached).all() if len(cached) else not root.any()
        full = cached[pool.num_tokens[cached] == pool.block_size]
        hashes = block_hashes(pool.tokens[full])
        self._table.check_integrity(full, content_keys(hashes, root[full]))
        starts = cached[pool.parent[cached] < 0]
        inner = cached[pool.parent[cached] >= 0]
        parents = pool.parent[inner]
        assert (root[inner] == root[parents]).all() and (first[inner] == first[parents]).all()
        assert (first[starts] == starts).all()
        assert all(self._roots.find(self._roots.namespace(r)) == r for r in set(root[cached]))
        edges = set(zip(parents.tolist(), inner.tolist()))
        edges |= set(zip(root[starts].tolist(), starts.tolist()))
        assert set(self._children) == edges, "links differ from the parents of blocks"
        self._children.check_integrity()
