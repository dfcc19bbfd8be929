"""CacheManager: the one façade of the cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set

import numpy as np

from kvtool.cache.backing import Backing
from kvtool.cache.below import Below
from kvtool.cache.block_pool import BlockPool, Tokens
from kvtool.cache.events import AllBlocksCleared, EventLog, EventSink
from kvtool.cache.eviction import POLICIES
from kvtool.cache.group import GroupSpec
from kvtool.cache.group_cache import GroupCache, IndexFactory
from kvtool.cache.growth import Growth
from kvtool.cache.index import INDEXES, Match
from kvtool.cache.lone import LonePath, Served
from kvtool.cache.saving import MIN_SAVED_BLOCKS
from kvtool.cache.sequence import BlockCopy, Query, SequenceKV
from kvtool.cache.shift_planner import ShiftPlanner
from kvtool.cache.shifted import sources
from kvtool.cache.stats import CacheStats
from kvtool.cache.transfers import Transfers
from kvtool.config import CacheConfig
from kvtool.names import lookup

__all__ = ["BlockCopy", "CacheManager", "SequenceKV", "Tokens"]


class CacheManager:
    """Blocks of all layer groups: begin → (allocate → commit)… → free for every request; behind
    begin, `extend_hit` and then `plan_shift` may find more than the pool's prefix index.

    `namespace` is opaque here (see `Namespace.digest`): requests with different ones never share.
    A hit is what every group has; blocks are handed out in all groups or in none.
    events: called with every event as it happens. index: instead of the one `config` names.
    backing: the tiers below, where committed blocks are written to and hits are continued.
    """

    def __init__(
        self,
        groups: tuple[GroupSpec, ...],
        config: CacheConfig,
        *,
        events: EventSink | None = None,
        index: IndexFactory | None = None,
        backing: Backing | None = None,
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
        self._transfers = Transfers(self.groups)
        self._below: Below | None = None
        if backing is not None and config.reuse != "none":
            self._below = Below(backing, self.groups, config, self._transfers, self.stats)
        self.shift: ShiftPlanner | None = None
        if config.reuse == "shift":
            self.shift = ShiftPlanner(self.groups, config, self.stats, self._transfers, backing)
        is_plain = len(groups) == 1 and config.reuse == "prefix" and not (backing or events)
        self._lone = LonePath(self.groups[0], self.stats) if is_plain else None

    @property
    def backing(self) -> Backing | None:
        return None if self._below is None else self._below.backing

    @property
    def num_blocks(self) -> int:
        return self.config.num_blocks

    @property
    def num_free_blocks(self) -> int:
        """Empty blocks, of the group that has fewest."""
        return min(group.pool.num_free for group in self.groups)

    @property
    def num_available_blocks(self) -> int:
        """Blocks that can be handed out: empty, or cached and held by nobody, or held by records
        of approximate KV alone, which are given up first."""
        return min(group.pool.num_available for group in self.groups)

    @property
    def peak_held_blocks(self) -> int:
        return max(group.pool.peak_held for group in self.groups)

    def match(self, tokens: Tokens, namespace: bytes = b"") -> int:
        """Tokens of the longest prefix in the pool, perhaps all of them. Changes nothing."""
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
        """Match in the pool and pin what matched.

        The query is counted once, by the first `allocate` that succeeds: a request that finds no
        room and comes back later leaves no trace. reuse False: an empty hit, no query. align > 1:
        the hit is cut to a multiple of `align` tokens that leaves at least one token. priority: see
        `eviction.priority`. counted False: a request that was counted before and comes back.
        """
        kv = SequenceKV(namespace, len(self.groups), priority)
        if not reuse or self.config.reuse == "none":
            return kv
        matches = self._matches(tokens, namespace)
        hit = min([match.num_tokens for match in matches])
        if align > 1:
            hit = min(hit, len(tokens) - 1) // align * align
        for group, match in zip(self.groups, matches):
            group.begin(kv, match, hit)
        kv.num_cached, kv.num_known = hit, hit if counted else 0
        kv.num_committed_blocks = hit // self.config.block_size
        if counted:
            kv.query = Query(len(tokens), hit, sum([match.collided for match in matches]))
        if self._below is not None:
            self._below.begin(kv, tokens)
        return kv

    def extend_hit(self, kv: SequenceKV, *, align: int = 1) -> None:
        """Go on from the last full block with what the tiers below have, if that is more.

        Asks the tiers, so it is called once `kv` is sure to get slots. Nothing is pinned or read
        yet: the first `allocate` reserves blocks, and `kv.load` fills them within its step.
        align > 1: as in `begin`; a multiple of the block size.
        """
        if self._below is not None:
            self._below.extend_hit(kv, align)

    def plan_shift(self, kv: SequenceKV, tokens: Tokens, barred: Set[int] = frozenset()) -> None:
        """Go on from approximate KV of the same text, look for text behind the exact hit at other
        positions, and pin what is used of both.

        Not for sequences begun without reuse. From now on `kv.shift` says, if it is not None,
        which positions of `tokens` need computing; `allocate` never ends inside a run.
        barred: blocks of the first group that must not donate.
        """
        if self.shift is not None:
            self.shift.plan(kv, tokens, barred, self._now)

    def num_missing_blocks(self, kv: SequenceKV, num_tokens: int) -> int:
        """Blocks that covering [0, num_tokens) takes of each group, but for a copy of the last
        one in the table."""
        return max(group.num_missing(kv, num_tokens) for group in self.groups)

    def allocate(self, kv: SequenceKV, num_tokens: int) -> list[BlockCopy] | None:
        """Slots for [0, num_tokens); positions from the old `kv.num_tokens` on may be written.

        Returns the copies to carry out before anything is stored; their sources stay as they are
        until the next `commit` or `free` of `kv`. None: blocks are missing; nothing has changed.
        What only waits for a copy to end is waited for.
        """
        assert num_tokens >= kv.num_cached or not kv.stored, "less than what is to be loaded"
        growths: list[Growth] | None = []
        if num_tokens > kv.num_tokens:
            growths = self._growths(kv, num_tokens)
            while growths is None and self._transfers.release_oldest():
                growths = self._growths(kv, num_tokens)
        if growths is None:
            return None
        self._admit(kv)
        if self.shift is not None and growths:
            self.shift.make_room([growth.num_blocks for growth in growths])
        if kv.shift is not None:
            kv.shift.enter(kv.num_tokens, num_tokens)
        copies = [group.grow(kv, num_tokens, growth) for group, growth in zip(self.groups, growths)]
        if kv.stored and self._below is not None:
            self._below.reserve_load(kv)
        return [copy for copy in copies if copy is not None]

    def commit(self, kv: SequenceKV, tokens: Tokens) -> None:
        """The KV of `tokens` = [0, n) is there: its full blocks become visible, as far as no run
        comes before them.

        Where an equal block is visible already, `kv` continues on that one.
        """
        for group in self.groups:
            group.release_copy_sources(kv)
        if self._below is not None:
            self._below.end_step(kv, tokens)
        if kv.incoming and self.shift is not None:
            self.shift.end_step(kv, tokens)
        assert len(tokens) <= kv.num_tokens, f"{len(tokens)} tokens in {kv.num_tokens} slots"
        tokens = kv.exact(tokens)
        num_blocks = len(tokens) // self.config.block_size
        if num_blocks > kv.num_committed_blocks and kv.indexable and self.config.reuse != "none":
            self._now += 1
            kv.num_committed_blocks = min(
                [group.commit(kv, tokens, self._now) for group in self.groups]
            )
            kv.indexable = kv.num_committed_blocks == num_blocks
            if self._below is not None:
                self._below.save(kv, at_least=MIN_SAVED_BLOCKS)

    def free(self, kv: SequenceKV, tokens: Tokens) -> None:
        """Commit `tokens`, the partial last block included, and drop all references.

        tokens: [0, n), the ones whose KV is computed; empty where nothing new may be kept.
        """
        if kv.stored:  # the last of them were to be loaded, and never got slots
            tokens = tokens[: kv.num_tokens]
        self.commit(kv, tokens)
        exact = kv.exact(tokens)
        self._now += 1
        for group in self.groups:
            if self.config.reuse != "none":
                group.commit_partial(kv, exact, self._now)
        if self._below is not None:
            self._below.save(kv, tail=exact)
        if self.shift is not None:
            self.shift.keep(kv, tokens, self._now)
        for group in self.groups:
            group.release(kv, self._now)
        self._transfers.release_ended()
        kv.num_cached = kv.num_committed_blocks = 0
        kv.shift = None

    def pass_through(self, tokens: Tokens, namespace: bytes, priority: int) -> Served | None:
        """`begin`, `allocate` and `free` in one; None: it takes these (see `LonePath`)."""
        if self._lone is None:
            return None
        self._now += 1
        return self._lone.run(tokens, namespace, priority, self._now)

    def release_ended_transfers(self) -> None:
        """Blocks whose copies are over become available."""
        self._transfers.release_ended()

    def count_runs(self, kv: SequenceKV) -> None:
        """The first step of a request with `kv.shift` was carried out."""
        assert kv.shift is not None
        self.stats.count_shifted(sources(kv.shift.plan))
        for group in self.groups:
            group.announce_runs(kv)

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

    def _growths(self, kv: SequenceKV, num_tokens: int) -> list[Growth] | None:
        """What covering [0, num_tokens) takes of each group; None: more than is available."""
        growths = [group.growth(kv, num_tokens) for group in self.groups]
        pairs = zip(self.groups, growths)
        fits = all(growth.num_blocks <= group.pool.num_available for group, growth in pairs)
        return growths if fits else None

    def clear(self) -> None:
        """Forget everything in the pool. Nobody may hold a block; copies are waited for."""
        while self._transfers.release_oldest():
            pass
        if self.shift is not None:
            self.shift.clear()
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
        for group_id, group in enumerate(self.groups):
            weak = Counter[int]() if self.shift is None else self.shift.holders(group_id)
            group.check_integrity(live, self._transfers.holders(group_id), weak)
        if self.shift is not None:
            self.shift.check_integrity()
        if self._below is not None:
            self._below.backing.check_integrity()
