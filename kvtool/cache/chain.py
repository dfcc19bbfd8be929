"""HashChain: vLLM's automatic prefix caching. Full blocks only, found by their chained hash."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kvtool.cache.block_hash import hash_block, root_hash, token_bytes
from kvtool.cache.block_pool import BlockIds, BlockPool, Tokens
from kvtool.cache.index import (
    NO_BLOCKS,
    NO_MATCH,
    Insertion,
    Match,
    Roots,
    check_contents,
    verified,
)

BlockHash = Callable[[bytes, bytes], bytes]  # (hash of the block in front, token bytes) -> hash


class HashChain:
    """One map from block hash to block; the hash covers namespace and all tokens up to the block.

    The first block is chained to `root_hash(namespace)`.
    """

    def __init__(self, pool: BlockPool, block_hash: BlockHash = hash_block) -> None:
        self._pool = pool
        self._block_hash = block_hash
        self._roots = Roots()
        self._blocks: dict[bytes, int] = {}
        self._hashes: list[bytes | None] = [None] * pool.num_blocks

    def match(self, tokens: Tokens, namespace: bytes) -> Match:
        root = self._roots.find(namespace)
        if root is None:
            return NO_MATCH
        size = self._pool.block_size
        blocks = tokens[: len(tokens) // size * size].reshape(-1, size)
        ids, collided = self._walk(root, root_hash(namespace), blocks)
        return Match(ids, len(ids) * size, collided)

    def insert(
        self, block_ids: BlockIds, tokens: Tokens, parent: int | None, namespace: bytes
    ) -> Insertion:
        blocks = tokens.reshape(len(block_ids), self._pool.block_size)
        root = self._roots.find(namespace) if parent is None else parent
        seed = root_hash(namespace) if parent is None else self._hash_of(parent)
        found, collided = (NO_BLOCKS, False) if root is None else self._walk(root, seed, blocks)
        first = len(found)
        if collided or first == len(block_ids):
            return Insertion(found, NO_BLOCKS)
        if first:
            parent = int(found[-1])
            seed = self._hash_of(parent)
        new = self._add(block_ids[first:], blocks[first:], seed, parent, namespace)
        return Insertion(found, new)

    def _add(
        self, new: BlockIds, blocks: Tokens, seed: bytes, parent: int | None, namespace: bytes
    ) -> BlockIds:
        """Index new blocks in order, up to the first whose hash is taken."""
        hashes = self._unused_hashes(seed, blocks)
        new = new[: len(hashes)]
        if hashes:
            head = self._roots.add_child(namespace) if parent is None else parent
            self._pool.store(new, blocks[: len(new)], head)
            for block, digest in zip(new.tolist(), hashes):
                self._hashes[block] = digest
                self._blocks[digest] = block
        return new

    def insert_partial(
        self, block_id: int, tokens: Tokens, parent: int | None, namespace: bytes
    ) -> bool:
        return False

    def remove(self, block_id: int) -> int | None:
        del self._blocks[self._hash_of(block_id)]
        self._hashes[block_id] = None
        parent = self._pool.parent_of[block_id]
        if parent < 0:
            self._roots.remove_child(parent)
        return self._pool.forget(block_id)

    def remove_run(self, block_ids: list[int]) -> int | None:
        for block in block_ids:
            del self._blocks[self._hash_of(block)]
            self._hashes[block] = None
        parent = self._pool.parent_of[block_ids[-1]]
        if parent < 0:
            self._roots.remove_child(parent)
        return self._pool.forget_run(block_ids)

    def _hash_of(self, block_id: int) -> bytes:
        digest = self._hashes[block_id]
        assert digest is not None, f"block {block_id} is not indexed"
        return digest

    def _walk(self, parent: int, seed: bytes, blocks: Tokens) -> tuple[BlockIds, bool]:
        """Blocks behind `parent` that hold `blocks`; and whether a hash met other tokens."""
        ids: list[int] = []
        raw, width = token_bytes(blocks), 4 * self._pool.block_size
        digest = seed
        for start in range(0, len(raw), width):
            digest = self._block_hash(digest, raw[start : start + width])
            block = self._blocks.get(digest)
            if block is None:
                break
            ids.append(block)
        if not ids:
            return NO_BLOCKS, False
        found = verified(self._pool, ids, blocks, parent)
        return found, len(found) < len(ids)

    def _unused_hashes(self, seed: bytes, blocks: Tokens) -> list[bytes]:
        """The chained hashes of `blocks`, up to the first that is taken or repeated."""
        hashes: dict[bytes, None] = {}
        raw, width = token_bytes(blocks), 4 * self._pool.block_size
        digest = seed
        for start in range(0, len(raw), width):
            digest = self._block_hash(digest, raw[start : start + width])
            if digest in self._blocks or digest in hashes:
                break
            hashes[digest] = None
        return list(hashes)

    def check_integrity(self) -> None:
        pool = self._pool
        check_contents(pool)
        self._roots.check_integrity(pool)
        cached = np.flatnonzero(pool.num_tokens > 0).tolist()
        assert set(cached) == {b for b, digest in enumerate(self._hashes) if digest is not None}
        assert self._blocks == {self._hash_of(block): block for block in cached}
        for block in cached:
            parent = int(pool.parent[block])
            seed = root_hash(self._roots.namespace(parent)) if parent < 0 else self._hash_of(parent)
            assert self._hashes[block] == self._block_hash(seed, token_bytes(pool.tokens[block]))
            assert pool.num_tokens[block] == pool.block_size
