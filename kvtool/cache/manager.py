"""CacheManager: the one façade of the cache. (Interface; see the class.)"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvtool.cache.block_table import BlockTable
from kvtool.cache.group import GroupSpec
from kvtool.config import CacheConfig

Tokens = npt.NDArray[np.int32]


class BlockCopy(NamedTuple):
    """Copy the first `num_slots` slots of `source` to `target`, all layers of group `group`."""

    group: int
    source: int
    target: int
    num_slots: int


class SequenceKV:
    """What one request holds: a block table per group, tiling [0, num_tokens).

    [0, num_cached): KV taken from the cache; these slots are never written by this request.
    """

    def __init__(self, namespace: bytes, num_groups: int) -> None:
        self.namespace = namespace
        self.tables = tuple(BlockTable() for _ in range(num_groups))
        self.num_cached = 0
        self.num_committed_blocks = 0

    @property
    def num_tokens(self) -> int:
        return self.tables[0].num_tokens


class CacheManager:
    def __init__(self, groups: tuple[GroupSpec, ...], config: CacheConfig) -> None:
        raise NotImplementedError

    def match(self, tokens: Tokens, namespace: bytes = b"") -> int:
        """Tokens of the longest cached prefix. Changes nothing."""
        raise NotImplementedError

    def begin(
        self, tokens: Tokens, namespace: bytes = b"", *, reuse: bool = True, align: int = 1
    ) -> SequenceKV:
        raise NotImplementedError

    def allocate(self, kv: SequenceKV, num_tokens: int) -> list[BlockCopy] | None:
        raise NotImplementedError

    def commit(self, kv: SequenceKV, tokens: Tokens) -> None:
        raise NotImplementedError

    def free(self, kv: SequenceKV, tokens: Tokens) -> None:
        raise NotImplementedError
