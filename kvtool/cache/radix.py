"""RadixTree: hits to the token, as in SGLang's RadixAttention.

Tokens are compared as they are, so that nothing depends on a hash.
"""

from __future__ import annotations

from kvtool.cache.block_places import Place
from kvtool.cache.block_pool import Tokens
from kvtool.cache.block_tree import BlockTree
from kvtool.cache.eviction import BlockUse
from kvtool.cache.index import Insertion, Match


class RadixTree:
    """The search in a `BlockTree`; the last, partly matching block is compared token by token."""

    def __init__(self, tree: BlockTree) -> None:
        self._tree = tree
        self.remove = tree.remove  # it keeps nothing of its own

    def match(self, tokens: Tokens, namespace: bytes) -> Match:
        tree, size = self._tree, self._tree.pool.block_size
        place = tree.top(namespace)
        if place is None:
            return Match([], 0, False)
        query = tokens.tobytes()
        ids, place = tree.walk(place, query)
        num_tokens = len(ids) * size
        if num_tokens < len(tokens) and size > 1:
            block, length = tree.longest_prefix(
                place, query[4 * num_tokens : 4 * (num_tokens + size)]
            )
            if length:
                ids.append(block)
                num_tokens += length
        return Match(ids, num_tokens, False)

    def insert(
        self,
        block_ids: list[int],
        tokens: Tokens,
        parent: int | None,
        namespace: bytes,
        use: BlockUse,
    ) -> Insertion:
        tree, query = self._tree, tokens.tobytes()
        place = tree.top(namespace) if parent is None else tree.behind(parent)
        found: list[int] = []
        if place is not None:
            found, place = tree.walk(place, query)
        new = block_ids[len(found) :]
        if new:
            self.extend(place, namespace, new, query[len(found) * tree.block_bytes :], use)
        return Insertion(found, new)

    def extend(
        self,
        place: Place | None,
        namespace: bytes,
        block_ids: list[int],
        tokens: bytes,
        use: BlockUse,
    ) -> list[int]:
        self._tree.append(place, namespace, block_ids, tokens, use)
        return block_ids

    def insert_partial(
        self, block_id: int, tokens: Tokens, parent: int | None, namespace: bytes, use: BlockUse
    ) -> bool:
        tree, query = self._tree, tokens.tobytes()
        assert 0 < len(query) < tree.block_bytes
        place = tree.top(namespace) if parent is None else tree.behind(parent)
        if place is not None and tree.longest_prefix(place, query)[1] == len(tokens):
            return False
        tree.append(place, namespace, [block_id], query, use)
        return True

    def check_integrity(self) -> None:
        self._tree.check_integrity()
