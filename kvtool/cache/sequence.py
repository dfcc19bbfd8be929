"""What one request holds of the cache."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from kvtool.cache.backing import Load, StoredBlock
from kvtool.cache.block_keys import BlockKeys
from kvtool.cache.block_pool import Tokens
from kvtool.cache.block_table import BlockTable
from kvtool.cache.eviction import BlockUse
from kvtool.cache.incoming import Incoming
from kvtool.cache.section import Runs
from kvtool.cache.shifted import ShiftedKV


class BlockCopy(NamedTuple):
    """Copy the first `num_slots` slots of `source` to `target`, all layers of group `group`."""

    group: int
    source: int
    target: int
    num_slots: int


class Query(NamedTuple):
    """The outcome of one lookup; collisions over all groups. refused: see `CacheStats`."""

    num_tokens: int
    num_hit_tokens: int
    num_collisions: int
    refused: Mapping[str, int] = MappingProxyType({})


class SequenceKV:
    """A block table per group, tiling [0, num_tokens); the manager alone changes it.

    [0, num_cached): KV taken from the cache; these slots are never written by this request.
    [0, num_known): the pool had it before the request came.
    num_committed_blocks: leading blocks that are in the index, in every group.
    indexable: False once a block's key was taken by other tokens; nothing behind it is indexed.
    copy_sources: per group, blocks that a copy of the coming step still reads.

    Only where there are tiers below the pool:
    keys: names of its blocks there. stored: found there, behind the full blocks of the pool; not
    loaded yet, because it has no slots yet. load: under way in the coming step, over `stored`.
    num_saved_blocks: leading full blocks that need not be written below (any more).
    incoming: donors among its runs that are read in its first step.

    shift: what is served from text cached at other positions; None: nothing is.
    """

    num_cached = 0
    num_known = 0
    num_committed_blocks = 0
    indexable = True
    query: Query | None = None  # until it is counted
    keys: BlockKeys | None = None
    stored: tuple[StoredBlock, ...] = ()
    load: Load | None = None
    num_saved_blocks = 0
    incoming: tuple[Incoming, ...] = ()
    shift: ShiftedKV | None = None
    _use: BlockUse | None = None

    def __init__(self, namespace: bytes, num_groups: int, priority: int = 0) -> None:
        self.namespace = namespace
        self.priority = priority
        self.tables = tuple([BlockTable() for _ in range(num_groups)])
        self.copy_sources: tuple[list[int], ...] = tuple([[] for _ in range(num_groups)])

    def use(self, now: int) -> BlockUse:
        """Of all blocks that it stores, until it ends; now: of the first ones."""
        if self._use is None:
            self._use = BlockUse(now, now, 0, self.priority)
        return self._use

    @property
    def num_tokens(self) -> int:
        return self.tables[0].num_tokens

    @property
    def num_incoming_blocks(self) -> int:
        """Of each group."""
        return sum(len(incoming.load.blocks) for incoming in self.incoming)

    def incoming_blocks(self, group: int) -> list[int]:
        """Each with a reference more than its chain has."""
        return [b for _, chain in self.incoming for b in chain.blocks[group].tolist()]

    @property
    def num_exact(self) -> int | None:
        """Leading tokens that may be indexed and saved; None: all."""
        return None if self.shift is None else self.shift.num_exact

    def exact(self, tokens: Tokens) -> Tokens:
        """Those of [0, n) that may be indexed and saved."""
        return tokens if self.shift is None else tokens[: self.shift.num_exact]

    def runs(self, group: int) -> Runs:
        """Runs that are read where they are, by start."""
        return () if self.shift is None else self.shift.moved[group]

    def used_runs(self, group: int) -> Runs:
        """All runs, those that are copied included."""
        return () if self.shift is None else self.shift.moved[group] + self.shift.copied[group]
