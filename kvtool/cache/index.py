"""What a prefix index does."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kvtool.cache.block_places import Place
from kvtool.cache.block_pool import Tokens
from kvtool.cache.eviction import BlockUse

INDEXES = {
    "radix": "kvtool.cache.radix:RadixTree",
    "chain": "kvtool.cache.chain:HashChain",
}


class Match(NamedTuple):
    """The longest cached prefix: `num_tokens` tokens in these blocks, the last one perhaps in part.

    collided: the search ended at a block with the right key and other tokens.
    """

    block_ids: list[int]
    num_tokens: int
    collided: bool


class Insertion(NamedTuple):
    """How a run of full blocks is indexed now: first `found`, then `new`.

    found: blocks with these tokens that were indexed before. new: the given blocks behind them.
    Together fewer than given: the next key was taken by other tokens, and nothing from there on
    is indexed.
    """

    found: list[int]
    new: list[int]


class PrefixIndex(Protocol):
    """Finds blocks of a `BlockTree` by namespace and tokens; what is cached changes only here.

    parent: the cached block in front of the first given one; None: it starts the sequence.
    """

    def match(self, tokens: Tokens, namespace: bytes) -> Match: ...

    def insert(
        self,
        block_ids: list[int],
        tokens: Tokens,
        parent: int | None,
        namespace: bytes,
        use: BlockUse,
    ) -> Insertion:
        """Index full blocks; tokens int32 [len(block_ids) * block_size]. use: of the new ones."""
        ...

    def extend(
        self,
        place: Place | None,
        namespace: bytes,
        block_ids: list[int],
        tokens: bytes,
        use: BlockUse,
    ) -> list[int]:
        """`insert` behind a place of the tree where no block holds these tokens; None: the
        namespace has no blocks. The new ones: fewer than given, where a key is taken."""
        ...

    def insert_partial(
        self, block_id: int, tokens: Tokens, parent: int | None, namespace: bytes, use: BlockUse
    ) -> bool:
        """Index a block with fewer than block_size tokens as a leaf. False: it adds nothing."""
        ...

    def remove(self, blocks: list[int]) -> int | None:
        """Take out a leaf, or what `BlockTree.evictable_run` gave; see `BlockTree.remove`."""
        ...

    def check_integrity(self) -> None:
        """Of the tree, and of what the index keeps beside it."""
        ...
