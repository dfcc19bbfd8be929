"""CacheManager: the one façade of the cache."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kvtool.cache.block_pool import BlockPool, Tokens
from kvtool.cache.events import AllBlocksCleared, EventLog, EventSink
from kvtool.cache.eviction import POLICIES
from kvtool.cache.group import GroupSpec
from kvtool.cache.group_cache import GroupCache, IndexFactory
from kvtool.cache.index import INDEXES, Match
from kvtool.cache.sequence import BlockCopy, Query, SequenceKV
from kvtool.cache.stats import CacheStats
from kvtool.config import CacheConfig
from kvtool.names import lookup

__all__ = ["BlockCopy", "CacheManager", "SequenceKV", "Tokens"]


class CacheManager:
    """Blocks of all layer groups: begin → (allocate → commit)… → free for every request.

    `namespace` is opaque here (see `Namespace.digest`): requests with different ones never share.
    A hit is what every group has; blocks are handed out in all groups or in none.
    events: called with every event as it happens. index: instead of the one `config` names.
    """

    def __init__(
        self,
        groups: tuple[GroupSpec, ...],
        config: CacheConfig,
        *,
        events: EventSink | None = None,
        index: IndexFactory | None = None,
    ) -> None:
        assert groups, "a model has at least one layer group"
        self.config = config
        self.stats = CacheStats()
        self._events = events
        self._now = 0
        factory = index or lookup(INDEXES, config.prefix_index, "prefix index")
        policy = lookup(POLICIES, config.evict, "eviction policy")
        self.groups = tuple(
            GroupCache(
                group_id,
                BlockPool(config.num_blocks, config.block_size),
                factory,
                policy,
                self.stats,
                EventLog(events, config.block_size, group_id) if events else None,
            )
            for group_id in range(len(groups))
        )

    @property
    def num_blocks(self) -> int:
        return self.config.num_blocks

    @property
    def num_free_blocks(self) -> int:
        """Empty blocks, of the group that has fewest."""
        return min(group.pool.num_free for group in self.groups)

    @property
    def num_available_blocks(self) -> int:
        """Blocks that can be handed out: empty, or cached and held by nobody."""
        return min(group.pool.num_available for group in self.groups)

    @property
    def peak_held_blocks(self) -> int:
        return max(group.pool.peak_held for group in self.groups)

    def match(self, tokens: Tokens, namespace: bytes = b"") -> int:
        """Tokens of the longest cached prefix, perhaps all of them. Changes nothing."""
        if self.config.reuse == "none":
            return 0
        return min(match.num_tokens for match in self._matches(tokens, namespace))

    def begin(
        self,
        tokens: Tokens,
        namespace: bytes = b"",
        *,
        reuse: bool = True,
        align: int = 1,
        priority: int = 0,
        counted: bool = True,
    ) -> SequenceKV:
        """Match and pin what matched.

        The query is counted once, by the first `allocate` that succeeds: a request that finds no
        room and comes back later leaves no trace. reuse False: an empty hit, no query. align > 1: the hit
        is cut to a multiple of `align` tokens that leaves at least one token. priority: see
        `eviction.priority`. counted False: a request that was counted before and comes back.
        """
        kv = SequenceKV(namespace, len(self.groups), priority)
        if not reuse or self.config.reuse == "none":
            return kv
        matches = self._matches(tokens, namespace)
        hit = min(match.num_tokens for match in matches)
        if align > 1:
            hit = min(hit, len(tokens) - 1) // align * align
        for group, match in zip(self.groups, matches):
            group.begin(kv, match, hit)
        kv.num_cached = hit
        kv.num_committed_blocks = hit // self.config.block_size
        if counted:
            kv.query = Query(len(tokens), hit, sum(match.collided for match in matches))
        return kv

    def allocate(self, kv: SequenceKV, num_tokens: int) -> list[BlockCopy] | None:
        """Slots for [0, num_tokens); positions from the old `kv.num_tokens` on may be written.

        Returns the copies to carry out before anything is stored; their sources stay as they are
        until the next `commit` or `free` of `kv`. None: blocks are missing; nothing has changed.
        """
        if num_tokens > kv.num_tokens:
            growths = [
                group.growth(kv.tables[i], num_tokens) for i, group in enumerate(self.groups)
            ]
            for group, growth in zip(self.groups, growths):
                if growth.num_blocks > group.pool.num_available:
                    return None
        else:
            growths = []
        self._admit(kv)
        copies = [group.grow(kv, num_tokens, growth) for group, growth in zip(self.groups, growths)]
        return [copy for copy in copies if copy is not None]

    def commit(self, kv: SequenceKV, tokens: Tokens) -> None:
        """The KV of `tokens` = [0, n) is computed: its full blocks become visible.

        Where an equal block is visible already, `kv` continues on that one.
        """
        for group in self.groups:
            group.release_copy_sources(kv)
        assert len(tokens) <= kv.num_tokens, f"{len(tokens)} tokens in {kv.num_tokens} slots"
        num_blocks = len(tokens) // self.config.block_size
        if num_blocks > kv.num_committed_blocks and kv.indexable and self.config.reuse != "none":
            self._now += 1
            kv.num_committed_blocks = min(
                group.commit(kv, tokens, self._now) for group in self.groups
            )
            kv.indexable = kv.num_committed_blocks == num_blocks

    def free(self, kv: SequenceKV, tokens: Tokens) -> None:
        """Commit `tokens`, the partial last block included, and drop all references.

        tokens: [0, n), the ones whose KV is computed; empty where nothing new may be kept.
        """
        self.commit(kv, tokens)
        self._now += 1
        for group in self.groups:
            if self.config.reuse != "none":
                group.commit_partial(kv, tokens, self._now)
            group.release(kv, self._now)
        kv.num_cached = kv.num_committed_blocks = 0

    def _matches(self, tokens: Tokens, namespace: bytes) -> list[Match]:
        assert tokens.dtype == np.int32, f"token ids are {tokens.dtype}, not int32"
        return [group.match(tokens, namespace) for group in self.groups]

    def _admit(self, kv: SequenceKV) -> None:
        """The request gets slots: its query and the use of the blocks it hit count from here."""
        if kv.query:
            self.stats.count(kv.query)
            for group in self.groups:
                group.count_hits(kv)
            kv.query = None

    def clear(self) -> None:
        """Forget everything. Nobody may hold a block."""
        for group in self.groups:
            assert group.pool.num_held == 0, "a live request holds blocks"
            group.clear()
        if self._events:
            self._events(AllBlocksCleared())

    def check_integrity(self, live: Iterable[SequenceKV] = ()) -> None:
        """Recompute every counter; `live`: all sequences begun and not freed."""
        live = list(live)
        for kv in live:
            assert len({table.num_tokens for table in kv.tables}) == 1
        for group in self.groups:
            group.check_integrity(live)
