"""HashChain: vLLM's automatic prefix caching. Full blocks only, found by their chained hash."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kvtool.cache.block_hash import hash_block, root_hash, token_bytes
from kvtool.cache.block_places import Place
from kvtool.cache.block_pool import Tokens
from kvtool.cache.block_tree import BlockTree
from kvtool.cache.eviction import BlockUse
from kvtool.cache.index import Insertion, Match

BlockHash = Callable[[bytes, bytes], bytes]  # (hash of the block in front, token bytes) -> hash


class HashChain:
    """One map from block hash to block; the hash covers namespace and all tokens up to the block.

    The first block is chained to `root_hash(namespace)`. A hash only finds a candidate: that it
    is the block at this place of the `BlockTree` makes it a hit.
    """

    def __init__(self, tree: BlockTree, block_hash: BlockHash = hash_block) -> None:
        self._tree = tree
        self._block_hash = block_hash
        self._blocks: dict[bytes, int] = {}
        self._hashes: list[bytes | None] = [None] * tree.pool.num_blocks

    def match(self, tokens: Tokens, namespace: bytes) -> Match:
        place = self._tree.top(namespace)
        if place is None:
            return Match([], 0, False)
        found, collided = self._find(place, root_hash(namespace), token_bytes(tokens))
        return Match(found, len(found) * self._tree.pool.block_size, collided)

    def insert(
        self,
        block_ids: list[int],
        tokens: Tokens,
        parent: int | None,
        namespace: bytes,
        use: BlockUse,
    ) -> Insertion:
        tree, width, raw = self._tree, self._tree.block_bytes, token_bytes(tokens)
        place = tree.top(namespace) if parent is None else tree.behind(parent)
        seed = self._hash_at(place, namespace)
        found, collided = ([], False) if place is None else self._find(place, seed, raw)
        first = len(found)
        if collided or first == len(block_ids):
            return Insertion(found, [])
        if found:
            place = tree.behind(found[-1])
        new = self.extend(place, namespace, block_ids[first:], raw[first * width :], use)
        return Insertion(found, new)

    def extend(
        self,
        place: Place | None,
        namespace: bytes,
        block_ids: list[int],
        tokens: bytes,
        use: BlockUse,
    ) -> list[int]:
        hashes = self._unused_hashes(self._hash_at(place, namespace), tokens)
        new = block_ids[: len(hashes)]
        if new:
            tokens = tokens[: len(new) * self._tree.block_bytes]
            self._tree.append(place, namespace, new, tokens, use)
            self._blocks.update(zip(hashes, new))
            for block, digest in zip(new, hashes):
                self._hashes[block] = digest
        return new

    def insert_partial(
        self, block_id: int, tokens: Tokens, parent: int | None, namespace: bytes, use: BlockUse
    ) -> bool:
        return False

    def remove(self, blocks: list[int]) -> int | None:
        for block in blocks:
            del self._blocks[self._hash_of(block)]
            self._hashes[block] = None
        return self._tree.remove(blocks)

    def _hash_of(self, block_id: int) -> bytes:
        digest = self._hashes[block_id]
        assert digest is not None, f"block {block_id} is not indexed"
        return digest

    def _hash_at(self, place: Place | None, namespace: bytes) -> bytes:
        """What a block behind `place` is chained to."""
        if place is None or not place[1]:
            return root_hash(namespace)
        node, position = place
        return self._hash_of(node.blocks[position - 1])

    def _chain(self, digest: bytes, raw: bytes) -> Iterator[bytes]:
        """The hashes of the full blocks of these tokens."""
        width = self._tree.block_bytes
        for start in range(0, len(raw) - len(raw) % width, width):
            digest = self._block_hash(digest, raw[start : start + width])
            yield digest

    def _find(self, place: Place, seed: bytes, raw: bytes) -> tuple[list[int], bool]:
        """Blocks behind `place` that hold these tokens; and whether a hash met other tokens."""
        candidates: list[int] = []
        for digest in self._chain(seed, raw):
            block = self._blocks.get(digest)
            if block is None:
                break
            candidates.append(block)
        held = self._tree.walk(place, raw[: len(candidates) * self._tree.block_bytes])[0]
        if held == candidates:
            return held, False
        same = [a == b for a, b in zip(candidates, [*held, None])]
        return candidates[: same.index(False)], True

    def _unused_hashes(self, seed: bytes, raw: bytes) -> list[bytes]:
        """The chained hashes of these blocks, up to the first that is taken or repeated."""
        hashes: dict[bytes, None] = {}
        for digest in self._chain(seed, raw):
            if digest in self._blocks or digest in hashes:
                break
            hashes[digest] = None
        return list(hashes)

    def check_integrity(self) -> None:
        self._tree.check_integrity()
        cached = [block for block, digest in enumerate(self._hashes) if digest is not None]
        assert self._blocks == {self._hash_of(block): block for block in cached}
        assert cached == sorted(self._tree.blocks())
        for namespace, leaf in self._tree.leaves():
            digests = list(self._chain(root_hash(namespace), self._tree.tokens(leaf)))
            assert digests == [self._hash_of(block) for block in self._tree.chain(leaf)]
