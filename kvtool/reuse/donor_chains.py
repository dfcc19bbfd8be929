"""DonorChains: text in blocks of the pool that donates its KV but stands for no prefix.

Such blocks are held and never cached: no prefix index, no `ContentIndex` and no tier knows them,
so no exact request ever meets them. They are means of several exact copies, or copies that were
loaded for a move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kvtool.cache.block_pool import BlockIds, BlockPool, Tokens
from kvtool.reuse.content_table import MAX_COPIES, ContentTable, content_keys
from kvtool.reuse.donor_source import MIN_CONTEXT_TOKENS
from kvtool.reuse.rolling_hash import block_hashes, window_hashes
from kvtool.reuse.roots import Roots

NO_CONTEXTS: npt.NDArray[np.uint64] = np.empty((0, 0), dtype=np.uint64)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Chain:
    """tokens stand in slot 0 of the first block and the slots behind it.

    blocks: per layer group int64 [num_blocks], each with a reference that goes to `DonorChains`.
    tokens: int32 [n]; only the last block may be partly filled. home: the position that
    slot 0 of the first block is rotated for. first_token: the one at position 0 of the sequence
    it was computed in. context: int32, up to 256 tokens right in front of it there; of a mean, in
    front of the copy merged last. num_merged: per block the exact copies in it, 1 to 4, int32
    [num_blocks] or one number for all. contexts: of a mean, what tells these copies' contexts
    apart (see `reuse.consensus`).
    """

    blocks: tuple[BlockIds, ...]
    tokens: Tokens
    home: int
    namespace: bytes
    first_token: int
    context: Tokens
    num_merged: npt.NDArray[np.int32] | int = 1
    contexts: npt.NDArray[np.uint64] = field(default_factory=NO_CONTEXTS.copy)

    @property
    def is_mean(self) -> bool:
        return bool(np.max(self.num_merged) > 1)


class DonorChains:
    """A `DonorSource` of such chains; a chain is named by its blocks in the first layer group.

    Has a weak reference (see `BlockPool`) of each block in every group until the chain is removed.
    Whoever reads a chain longer than a step has references of its own, of its leading blocks in
    all groups. At most 44 bytes a block of the pool, and the chains.
    """

    def __init__(self, pools: Sequence[BlockPool]) -> None:
        self._pools = tuple(pools)
        self._pool = pools[0]
        for pool in pools:
            pool.keep_tokens()
        self._table = ContentTable(self._pool.num_blocks)
        self._roots = Roots()
        self._chains: dict[int, Chain] = {}  # by first block
        self._last_use: dict[int, int] = {}  # likewise
        # Of every block of a chain: its namespace (0: of none), the first block, the place.
        self._root = np.zeros(self._pool.num_blocks, dtype=np.int32)
        self._first = np.zeros(self._pool.num_blocks, dtype=np.int32)
        self._place = np.zeros(self._pool.num_blocks, dtype=np.int32)

    def __len__(self) -> int:
        return len(self._chains)

    def __iter__(self) -> Iterator[Chain]:
        return iter(self._chains.values())

    @property
    def block_size(self) -> int:
        return self._pool.block_size

    @property
    def num_blocks(self) -> int:
        """Of each group."""
        return sum(len(chain.blocks[0]) for chain in self._chains.values())

    def add(self, chain: Chain, now: int) -> None:
        """Takes over one reference of each block. now: counts as its last use."""
        blocks = chain.blocks[0]
        size, num_full = self.block_size, len(chain.tokens) // self.block_size
        assert len(blocks) == -(-len(chain.tokens) // size) > 0
        rows = np.zeros(len(blocks) * size, dtype=np.int32)
        rows[: len(chain.tokens)] = chain.tokens
        for pool, own in zip(self._pools, chain.blocks, strict=True):
            pool.touch(own, weak=True)
            pool.free(own)
            pool.tokens[own] = rows.reshape(-1, size)
        root = self._roots.add_child(chain.namespace)
        self._root[blocks] = root
        self._first[blocks] = blocks[0]
        self._place[blocks] = np.arange(len(blocks))
        self._chains[int(blocks[0])] = chain
        self._last_use[int(blocks[0])] = now
        if num_full:
            full = blocks[:num_full]
            self._table.add(full, content_keys(block_hashes(self._pool.tokens[full]), root))

    def end_use(self, block: int, now: int) -> None:
        """A sequence read the chain of this block until now; it may have been removed since."""
        if block in self:
            self._last_use[int(self._first[block])] = now

    def remove(self, chain: Chain) -> None:
        """Whoever has references of its blocks keeps them."""
        blocks = chain.blocks[0]
        assert self._chains.pop(int(blocks[0])) is chain
        del self._last_use[int(blocks[0])]
        self._roots.remove_child(int(self._root[blocks[0]]))
        self._root[blocks] = 0
        for block in blocks.tolist():
            self._table.remove(block)
        for pool, own in zip(self._pools, chain.blocks):
            pool.give_back(pool.free(own, weak=True))

    def drop_oldest(self) -> bool:
        """Remove the chain that was last used longest ago, of those that no sequence pins."""
        oldest = min(self._idle(), key=self.last_use, default=None)
        if oldest is None:
            return False
        self.remove(self._chains[oldest])
        return True

    def _idle(self) -> list[int]:
        """First blocks of chains that are held by weak references alone."""
        pool = self._pool
        return [first for first in self._chains if pool.ref_count[first] == pool.weak_count[first]]

    def holds(self, chain: Chain) -> bool:
        return self._chains.get(int(chain.blocks[0][0])) is chain

    def place(self, block: int) -> int:
        """Which block of its chain it is, from 0 on."""
        return int(self._place[block])

    def chain(self, block: int) -> Chain:
        return self._chains[int(self._first[block])]

    def touch(self, block: int) -> None:
        """The chain of this block is the first that is found from now on."""
        chain = self.chain(block)
        self._table.touch(chain.blocks[0][: len(chain.tokens) // self.block_size])

    def __contains__(self, block: int) -> bool:
        return bool(self._root[block])

    def newest(self, tokens: Tokens, namespace: bytes) -> npt.NDArray[np.int32]:
        windows = max(0, len(tokens) - self.block_size + 1)
        root = self._roots.find(namespace)
        if root is None:
            return np.full(windows, -1, dtype=np.int32)
        found = self._table.newest(content_keys(window_hashes(tokens, self.block_size), root))
        return np.where(self._root[found] == root, found, -1)

    def copies(self, block: int) -> list[int]:
        root = self._root[block]
        found = [copy for copy in self._table.copies(block) if self._root[copy] == root]
        found.sort(key=lambda copy: self.home(copy) < MIN_CONTEXT_TOKENS)
        return found[:MAX_COPIES]

    def tokens(self, blocks: list[int]) -> Tokens:
        return self._pool.tokens[blocks]

    def home(self, block: int) -> int:
        return self.chain(block).home + int(self._place[block]) * self.block_size

    def ancestors(self, block: int, count: int) -> list[int]:
        place = int(self._place[block])
        found: list[int] = self.chain(block).blocks[0][max(0, place - count) : place].tolist()
        return found[::-1]

    def descendants(self, block: int, count: int) -> list[int]:
        chain, first = self.chain(block), int(self._place[block]) + 1
        num_full = len(chain.tokens) // self.block_size
        found: list[int] = chain.blocks[0][first : min(first + count, num_full)].tolist()
        return found

    def longest_child(self, block: int, tokens: Tokens) -> tuple[int, int]:
        chain, place = self.chain(block), int(self._place[block]) + 1
        stored = chain.tokens[place * self.block_size :][: len(tokens)]
        different = np.flatnonzero(stored != tokens[: len(stored)])
        length = int(different[0]) if len(different) else len(stored)
        return (int(chain.blocks[0][place]), length) if length else (-1, 0)

    def first_token(self, block: int) -> int:
        return self.chain(block).first_token

    def context(self, block: int, offset: int, count: int) -> Tokens:
        chain = self.chain(block)
        own = chain.tokens[: int(self._place[block]) * self.block_size + offset]
        return np.concatenate((chain.context, own))[-count:]

    def last_use(self, block: int) -> int:
        return self._last_use[int(self._first[block])]

    def num_merged(self, blocks: tuple[int, ...]) -> float:
        chain = self.chain(blocks[0])
        counts = np.broadcast_to(chain.num_merged, len(chain.blocks[0]))
        return float(counts[self._place[list(blocks)]].mean())

    def holders(self, group: int) -> Counter[int]:
        """Block id -> weak references."""
        return Counter(block for chain in self for block in chain.blocks[group].tolist())

    def check_integrity(self) -> None:
        """Chains share no block, hold each, and are found by what they hold."""
        size, pool = self.block_size, self._pool
        for group, pool_of_group in enumerate(self._pools):
            held = np.array(sorted(self.holders(group)), dtype=np.int64)
            assert len(held) == self.num_blocks, "two chains share a block"
            assert (pool_of_group.weak_count[held] > 0).all(), "a block of a chain is not held"
        assert self._last_use.keys() == self._chains.keys()
        full = [np.empty(0, dtype=np.int64)]
        for first, chain in self._chains.items():
            blocks = chain.blocks[0]
            assert (self._first[blocks] == first).all() and first == blocks[0]
            assert (self._place[blocks] == np.arange(len(blocks))).all()
            assert (self._root[blocks] == self._roots.find(chain.namespace)).all()
            assert (pool.tokens[blocks].reshape(-1)[: len(chain.tokens)] == chain.tokens).all()
            full.append(blocks[: len(chain.tokens) // size])
        ids = np.concatenate(full)
        assert np.count_nonzero(self._root) == self.num_blocks
        keys = content_keys(block_hashes(pool.tokens[ids]), self._root[ids])
        self._table.check_integrity(ids, keys)
