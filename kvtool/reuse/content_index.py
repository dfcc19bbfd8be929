"""ContentIndex: finds cached blocks by their tokens alone, whatever stands in front of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvtool.cache.block_places import NO_BLOCK
from kvtool.cache.block_pool import BlockIds, Tokens
from kvtool.cache.block_tree import BlockTree
from kvtool.reuse.content_table import MAX_COPIES, ContentTable, content_keys
from kvtool.reuse.donor_source import MIN_CONTEXT_TOKENS
from kvtool.reuse.rolling_hash import block_hashes, window_hashes
from kvtool.reuse.roots import Roots


class ContentIndex:
    """The exact blocks of one tree by (namespace, content).

    A `DonorSource`. Add a block after it entered the tree, remove it before it leaves. Full blocks
    can be found; partly filled ones are only reached from the block in front.
    At most 36 bytes a block.
    """

    def __init__(self, tree: BlockTree) -> None:
        self._tree = tree
        self._pool = pool = tree.pool
        pool.keep_tokens()
        self._table = ContentTable(pool.num_blocks)
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
        parent = self._tree.parent(first)
        if parent == NO_BLOCK:
            root = self._roots.add_child(namespace)
        else:
            root, first = self._root_of[parent], self._first_of[parent]
            assert root == self._roots.find(namespace), "a chain lies in one namespace"
        self._root[block_ids] = root
        self._first[block_ids] = first

    def remove(self, block_id: int) -> None:
        """A leaf, full or partly filled."""
        if self._tree.num_tokens(block_id) == self.block_size:
            self._table.remove(block_id)
        if self._tree.parent(block_id) == NO_BLOCK:
            self._roots.remove_child(self._root_of[block_id])
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
        root, position = self._root_of[block], self._tree.position
        context = -(-MIN_CONTEXT_TOKENS // self.block_size)  # blocks
        found: list[int] = []
        bare: list[int] = []
        for copy in self._table.copies(block):
            if self._root_of[copy] == root:
                (found if position(copy) >= context else bare).append(copy)
                if len(found) == MAX_COPIES:
                    break
        return (found + bare)[:MAX_COPIES]

    def tokens(self, blocks: list[int]) -> Tokens:
        return self._pool.tokens[blocks]

    def home(self, block: int) -> int:
        return self._tree.position(block) * self.block_size

    def ancestors(self, block: int, count: int) -> list[int]:
        return self._tree.ancestors(block, count)

    def descendants(self, block: int, count: int) -> list[int]:
        return self._tree.descendants(block, count)

    def longest_child(self, block: int, tokens: Tokens) -> tuple[int, int]:
        return self._tree.longest_prefix(self._tree.behind(block), tokens.tobytes())

    def first_token(self, block: int) -> int:
        return int(self._pool.tokens[self._first_of[block], 0])

    def context(self, block: int, offset: int, count: int) -> Tokens:
        before = self.ancestors(block, -(-count // self.block_size))
        tokens = self.tokens([*before[::-1], block]).reshape(-1)
        stop = len(before) * self.block_size + offset
        return tokens[max(0, stop - count) : stop]

    def last_use(self, block: int) -> int:
        return self._tree.use(block).last_use

    def num_merged(self, blocks: tuple[int, ...]) -> float:
        return 1.0

    def check_integrity(self) -> None:
        """Exactly the cached blocks of the pool are indexed, with their contents and links."""
        pool, root, first = self._pool, self._root, self._first
        cached = set[int]()
        for namespace, leaf in self._tree.leaves():
            chain = self._tree.chain(leaf)
            assert (root[chain] == self._roots.find(namespace)).all()
            assert (first[chain] == chain[0]).all()
            cached.update(chain)
        assert np.flatnonzero(root).tolist() == sorted(cached)
        is_full = [self._tree.num_tokens(block) == pool.block_size for block in sorted(cached)]
        full = np.array(sorted(cached), dtype=np.int64)[np.array(is_full, dtype=np.bool_)]
        hashes = block_hashes(pool.tokens[full])
        self._table.check_integrity(full, content_keys(hashes, root[full]))
