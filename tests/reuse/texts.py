"""A small cache of exact texts without a manager: pool, prefix index and content index."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kvtool.cache.block_pool import BlockPool, Tokens
from kvtool.cache.block_tree import BlockTree
from kvtool.cache.eviction import UNUSED
from kvtool.cache.index import INDEXES
from kvtool.names import lookup
from kvtool.reuse.content_index import ContentIndex
from kvtool.reuse.run import Run

SIZE = 4


def text(*parts: int | range | list[int] | Tokens) -> Tokens:
    """One token sequence of single ids, ranges and sequences."""
    arrays = [np.atleast_1d(np.array(part, dtype=np.int32)) for part in parts]
    return np.concatenate(arrays, dtype=np.int32)


class Store:
    """Keeps texts as a manager would: dedup by prefix, leaves removed first."""

    def __init__(self, num_blocks: int = 256, block_size: int = 4, index: str = "radix") -> None:
        self.pool = BlockPool(num_blocks, block_size)
        self.tree = BlockTree(self.pool)
        self.prefix = lookup(INDEXES, index, "index")(self.tree)
        self.content = ContentIndex(self.tree)
        self.clock = 0

    def add(self, tokens: Tokens, namespace: bytes = b"") -> list[int]:
        """Full blocks and a partly filled last one; returns the blocks that hold the text."""
        size, pool = self.pool.block_size, self.pool
        num_full = len(tokens) // size
        own = pool.allocate(-(-len(tokens) // size))
        full, rest = tokens[: num_full * size], tokens[num_full * size :]
        blocks: list[int] = []
        if num_full:
            found, new = self.prefix.insert(own[:num_full].tolist(), full, None, namespace, UNUSED)
            if new:
                self.content.add(np.array(new), namespace)
            blocks = [*found, *new]
        if len(rest) and len(blocks) == num_full:
            parent = blocks[-1] if blocks else None
            last = int(own[-1])
            if self.prefix.insert_partial(last, rest, parent, namespace, UNUSED):
                self.content.add_partial(last, namespace)
                blocks.append(last)
        self.clock += 1
        self.tree.end_use(blocks, self.clock)
        pool.give_back([b for b in pool.free(own) if not self.tree.is_cached(b)])
        return blocks

    def remove(self, block: int) -> None:
        assert self.tree.evictable_use(block)
        self.content.remove(block)
        self.prefix.remove([block])

    def leaves(self) -> list[int]:
        return sorted(leaf for _, leaf in self.tree.leaves())

    def chains(self, namespace: bytes = b"") -> Iterator[list[int]]:
        """Every path from the start of a text of the namespace to a leaf."""
        for name, leaf in self.tree.leaves():
            if name == namespace:
                yield self.tree.chain(leaf)

    def tokens_of(self, path: list[int]) -> Tokens:
        return np.frombuffer(self.tree.tokens(path[-1]), dtype=np.int32)

    def check_integrity(self) -> None:
        self.prefix.check_integrity()
        self.content.check_integrity()


def run(start: int, stop: int, delta: int, name: int = 0) -> Run:
    """A run in blocks of SIZE tokens, in a donor of its own whose block b is `1000 * name + b`."""
    first, offset = divmod(start - delta, SIZE)
    last = (stop - 1 - delta) // SIZE
    return Run(start, stop, delta, tuple(1000 * name + b for b in range(first, last + 1)), offset)
