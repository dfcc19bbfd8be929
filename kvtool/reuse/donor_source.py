"""What the search for runs asks of a store of cached text."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from kvtool.cache.block_pool import Tokens

# In front of a copy. One with fewer, behind a bare header say, never stands in the way of others.
MIN_CONTEXT_TOKENS = 64


class DonorSource(Protocol):
    """Chains of blocks whose KV may be moved, in any tier. A block id means something to its source
    only; sources that are searched together share none.

    A chain stands for text at any position of a sequence; its blocks are full, but for a last one.
    """

    @property
    def block_size(self) -> int: ...

    def __contains__(self, block: int) -> bool: ...

    def newest(self, tokens: Tokens, namespace: bytes) -> npt.NDArray[np.int32]:
        """For every window of block_size tokens the full block last used that seems to hold it,
        or -1. int32 [n] -> int32 [n - block_size + 1]."""
        ...

    def copies(self, block: int) -> list[int]:
        """A block that `newest` returned and further ones of its namespace that seem to hold the
        same, at most 8: last used first, but those at MIN_CONTEXT_TOKENS or later before others."""
        ...

    def tokens(self, blocks: list[int]) -> Tokens:
        """int32 [len(blocks), block_size]; of a partly filled block the leading ones count."""
        ...

    def home(self, block: int) -> int:
        """The position that slot 0 of the block was rotated for."""
        ...

    def ancestors(self, block: int, count: int) -> list[int]:
        """Up to `count` blocks in front, nearest first; fewer where the chain begins."""
        ...

    def descendants(self, block: int, count: int) -> list[int]:
        """Up to `count` full blocks behind, in order; fewer where the chain forks or ends."""
        ...

    def longest_child(self, block: int, tokens: Tokens) -> tuple[int, int]:
        """(block, length): which block behind this one begins with the most of `tokens`."""
        ...

    def first_token(self, block: int) -> int:
        """The token at position 0 of the sequence that the block's chain was computed in."""
        ...

    def context(self, block: int, offset: int, count: int) -> Tokens:
        """Up to `count` tokens right in front of slot `offset` of a block in that sequence."""
        ...

    def last_use(self, block: int) -> int: ...

    def num_merged(self, blocks: tuple[int, ...]) -> float:
        """Exact copies that the KV of these blocks of a chain is the mean of, on average."""
        ...
