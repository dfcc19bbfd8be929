"""RadixTree: a tree whose nodes are blocks (tokasaurus), after SGLang's RadixAttention.

A node is a block, so nodes never split; the last, partly matching block is compared token by
token.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

from kvtool.cache.block_pool import BlockIds, BlockPool, Tokens
from kvtool.cache.children import SortedChildren
from kvtool.cache.index import (
    NO_BLOCKS,
    NO_MATCH,
    Insertion,
    Match,
    Roots,
    check_contents,
    verified,
)

# key = content hash + parent id * factor: the walk is one multiplication and one addition a block.
# The factor has more than the 32 bits of a token: equal keys of blocks of one token mean equal
# parents and equal tokens.
_HASH_MASK = (1 << 62) - 1
_PARENT_FACTOR = 0x1_6F4A7C15

TokenHash = Callable[[Tokens], list[int]]


@cache
def _factors(block_size: int) -> npt.NDArray[np.int64]:
    """One odd 64-bit factor a slot, always the same ones."""
    return (
        np.random.Generator(np.random.PCG64(0x6B76)).integers(
            -(2**62), 2**62, block_size, dtype=np.int64
        )
        * 2
        + 1
    )


def hash_tokens(blocks: Tokens) -> list[int]:
    """[n, block_size] -> n: a multilinear hash of 62 bits. It finds candidates, no more.

    A block of one token is its own hash.
    """
    if blocks.shape[1] == 1:
        contents: list[int] = blocks[:, 0].tolist()
        return contents
    products = blocks.astype(np.int64) @ _factors(blocks.shape[1])
    contents = ((products ^ (products >> 32)) & _HASH_MASK).tolist()
    return contents


class RadixTree:
    """Full blocks are found by a 64-bit key of (parent id, tokens), the last one by its prefix."""

    def __init__(self, pool: BlockPool, token_hash: TokenHash = hash_tokens) -> None:
        self._pool = pool
        self._token_hash = token_hash
        self._is_exact = pool.block_size == 1 and token_hash is hash_tokens
        self._roots = Roots()
        self._blocks: dict[int, int] = {}  # key -> full block
        self._keys = [0] * pool.num_blocks  # of full blocks
        # Blocks of one token are never partly filled, and found by their key alone.
        self._children = SortedChildren(pool) if pool.block_size > 1 else None

    def match(self, tokens: Tokens, namespace: bytes) -> Match:
        root = self._roots.find(namespace)
        if root is None:
            return NO_MATCH
        size = self._pool.block_size
        ids, collided = self._walk(root, self._contents(tokens), tokens)
        num_tokens = len(ids) * size
        if self._children is not None and num_tokens < len(tokens):
            parent = int(ids[-1]) if len(ids) else root
            rest = tokens[num_tokens : num_tokens + size]
            block, length = self._children.longest_prefix(parent, rest)
            if length:
                ids = np.append(ids, block)
                num_tokens += length
        return Match(ids, num_tokens, collided)

    def insert(
        self, block_ids: BlockIds, tokens: Tokens, parent: int | None, namespace: bytes
    ) -> Insertion:
        contents = self._contents(tokens)
        root = self._roots.find(namespace) if parent is None else parent
        found, collided = (NO_BLOCKS, False) if root is None else self._walk(root, contents, tokens)
        first = len(found)
        if collided or first == len(block_ids):
            return Insertion(found, NO_BLOCKS)
        parent = int(found[-1]) if first else parent
        head = self._roots.add_child(namespace) if parent is None or parent < 0 else parent
        blocks = tokens.reshape(len(block_ids), self._pool.block_size)
        new = self._add(block_ids[first:], blocks[first:], contents[first:], head)
        if head < 0 and not len(new):
            self._roots.remove_child(head)
        return Insertion(found, new)

    def insert_partial(
        self, block_id: int, tokens: Tokens, parent: int | None, namespace: bytes
    ) -> bool:
        assert 0 < len(tokens) < self._pool.block_size and self._children is not None
        root = self._roots.find(namespace) if parent is None else parent
        if root is not None and self._children.longest_prefix(root, tokens)[1] == len(tokens):
            return False
        head = self._roots.add_child(namespace) if parent is None else parent
        block = np.array([block_id])
        self._pool.store(block, tokens[None], head)
        self._children.add_run(head, block)
        return True

    def remove(self, block_id: int) -> int | None:
        pool = self._pool
        parent = pool.parent_of[block_id]
        if pool.num_tokens_of[block_id] == pool.block_size:
            del self._blocks[self._keys[block_id]]
        if self._children is not None:
            self._children.remove(parent, block_id)
        if parent < 0:
            self._roots.remove_child(parent)
        return pool.forget(block_id)

    def remove_run(self, block_ids: list[int]) -> int | None:
        pool = self._pool
        parent = pool.parent_of[block_ids[-1]]
        is_full = pool.num_tokens_of[block_ids[0]] == pool.block_size
        blocks, keys = self._blocks, self._keys
        for block in block_ids if is_full else block_ids[1:]:
            del blocks[keys[block]]
        if self._children is not None:
            self._children.remove_run(parent, block_ids)
        if parent < 0:
            self._roots.remove_child(parent)
        return pool.forget_run(block_ids)

    def _contents(self, tokens: Tokens) -> list[int]:
        """Hashes of the full blocks of `tokens`."""
        if self._is_exact:
            contents: list[int] = tokens.tolist()
            return contents
        size = self._pool.block_size
        return self._token_hash(tokens[: len(tokens) // size * size].reshape(-1, size))

    def _walk(self, parent: int, contents: list[int], tokens: Tokens) -> tuple[BlockIds, bool]:
        """Full blocks behind `parent` that hold the first of these tokens; and whether a key met
        other tokens."""
        ids: list[int] = []
        get = self._blocks.get
        node = parent
        for content in contents:
            child = get(content + node * _PARENT_FACTOR)
            if child is None:
                break
            ids.append(child)
            node = child
        if not ids:
            return NO_BLOCKS, False
        if self._is_exact:
            return np.array(ids, dtype=np.int64), False
        size = self._pool.block_size
        found = verified(self._pool, ids, tokens[: len(ids) * size].reshape(-1, size), parent)
        return found, len(found) < len(ids)

    def _count_unused(self, keys: list[int]) -> int:
        """Leading keys that are neither taken nor repeated."""
        if self._blocks.keys().isdisjoint(keys) and len(set(keys)) == len(keys):
            return len(keys)
        seen = set()
        for position, key in enumerate(keys):
            if key in self._blocks or key in seen:
                return position
            seen.add(key)
        return len(keys)

    def _add(self, new: BlockIds, blocks: Tokens, contents: list[int], parent: int) -> BlockIds:
        """Index new blocks in order, up to the first whose key is taken."""
        ids = new.tolist()
        keys = [c + p * _PARENT_FACTOR for c, p in zip(contents, [parent, *ids])]
        if not self._is_exact:
            new = new[: self._count_unused(keys)]
        if len(new):
            self._pool.store(new, blocks[: len(new)], parent)
            del ids[len(new) :], keys[len(new) :]
            self._blocks.update(zip(keys, ids))
            keys_of = self._keys
            for block, key in zip(ids, keys):
                keys_of[block] = key
            if self._children is not None:
                self._children.add_run(parent, new)
        return new

    def check_integrity(self) -> None:
        pool = self._pool
        check_contents(pool)
        self._roots.check_integrity(pool)
        cached = np.flatnonzero(pool.num_tokens > 0)
        full = cached[pool.num_tokens[cached] == pool.block_size]
        ids, contents = full.tolist(), self._token_hash(pool.tokens[full])
        keys = [c + p * _PARENT_FACTOR for c, p in zip(contents, pool.parent[full].tolist())]
        assert keys == [self._keys[block] for block in ids]
        assert dict(zip(keys, ids)) == self._blocks
        if self._children is None:
            return
        self._children.check_integrity()
        edges = set(zip(pool.parent[cached].tolist(), cached.tolist()))
        assert set(self._children) == edges, "sibling lists differ from the parents of blocks"
