"""What a prefix index does, and what both kinds share."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from kvtool.cache.block_pool import BlockIds, BlockPool, Tokens

INDEXES = {
    "radix": "kvtool.cache.radix:RadixTree",
    "chain": "kvtool.cache.chain:HashChain",
}


class Match(NamedTuple):
    """The longest cached prefix: `num_tokens` tokens in these blocks, the last one perhaps in part.

    collided: the search ended at a block with the right key and other tokens.
    """

    block_ids: BlockIds
    num_tokens: int
    collided: bool


class Insertion(NamedTuple):
    """How a run of full blocks is indexed now: first `found`, then `new`.

    found: blocks with these tokens that were indexed before. new: the given blocks behind them.
    Together fewer than given: the next key was taken by other tokens, and nothing from there on
    is indexed.
    """

    found: BlockIds
    new: BlockIds


class PrefixIndex(Protocol):
    """Finds blocks by namespace and tokens. It owns the contents columns of the pool.

    parent: the cached block in front of the first given one; None: it starts the sequence.
    """

    def match(self, tokens: Tokens, namespace: bytes) -> Match: ...

    def insert(
        self, block_ids: BlockIds, tokens: Tokens, parent: int | None, namespace: bytes
    ) -> Insertion:
        """Index full blocks; tokens int32 [len(block_ids) * block_size]."""
        ...

    def insert_partial(
        self, block_id: int, tokens: Tokens, parent: int | None, namespace: bytes
    ) -> bool:
        """Index a block with fewer than block_size tokens as a leaf. False: it adds nothing."""
        ...

    def remove(self, block_id: int) -> int | None:
        """Take a leaf out of the index; returns its parent if that may be evicted now."""
        ...

    def remove_run(self, block_ids: list[int]) -> int | None:
        """The same for unreferenced blocks: a leaf, then each the parent of the one before it,
        which is its only child. Returns the last one's parent."""
        ...

    def check_integrity(self) -> None: ...


class Roots:
    """Namespaces as parents of first blocks: negative ids, given out once and never again."""

    def __init__(self) -> None:
        self._ids: dict[bytes, int] = {}
        self._namespaces: dict[int, bytes] = {}
        self._num_children: dict[int, int] = {}
        self._next = -1

    def find(self, namespace: bytes) -> int | None:
        return self._ids.get(namespace)

    def namespace(self, root: int) -> bytes:
        return self._namespaces[root]

    def add_child(self, namespace: bytes) -> int:
        root = self._ids.get(namespace)
        if root is None:
            root, self._next = self._next, self._next - 1
            self._ids[namespace] = root
            self._namespaces[root] = namespace
            self._num_children[root] = 0
        self._num_children[root] += 1
        return root

    def remove_child(self, root: int) -> None:
        self._num_children[root] -= 1
        if self._num_children[root] == 0:
            del self._num_children[root]
            del self._ids[self._namespaces.pop(root)]

    def check_integrity(self, pool: BlockPool) -> None:
        parents = pool.parent[(pool.num_tokens > 0) & (pool.parent < 0)]
        roots, counts = np.unique(parents, return_counts=True)
        assert dict(zip(roots.tolist(), counts.tolist())) == self._num_children
        assert {root: name for name, root in self._ids.items()} == self._namespaces
        assert self._namespaces.keys() == self._num_children.keys()


NO_BLOCKS: BlockIds = np.empty(0, dtype=np.int64)
NO_MATCH = Match(NO_BLOCKS, 0, False)


def verified(pool: BlockPool, candidates: list[int], blocks: Tokens, parent: int) -> BlockIds:
    """The leading candidates that really hold these tokens behind this parent.

    A key only finds a candidate; this comparison makes it a hit. blocks: int32 [n, block_size].
    """
    ids = np.array(candidates, dtype=np.int64)
    wanted = blocks[: len(ids)]
    parents = [parent, *candidates[:-1]]
    found = pool.parent[ids].tolist()
    if pool.token_rows[ids].tobytes() == wanted.tobytes() and found == parents:
        return ids
    same = (pool.tokens[ids] == wanted).all(axis=1) & (np.array(found) == parents)
    return ids[: int(same.argmin())]


def check_contents(pool: BlockPool) -> None:
    """Cached blocks form trees: a parent is cached, full, one block in front, and counted."""
    cached = np.flatnonzero(pool.num_tokens > 0)
    inner = cached[pool.parent[cached] >= 0]
    first = cached[pool.parent[cached] < 0]
    parents = pool.parent[inner]
    assert (pool.num_tokens[parents] == pool.block_size).all(), (
        "a parent is not a full cached block"
    )
    assert (pool.home[first] == 0).all()
    assert (pool.home[inner] == pool.home[parents] + pool.block_size).all()
    assert (pool.ref_count[parents] >= (pool.ref_count[inner] > 0)).all(), "held behind unheld"
    counts = np.bincount(parents, minlength=pool.num_blocks)
    assert (counts[cached] == pool.num_children[cached]).all(), "children are miscounted"
