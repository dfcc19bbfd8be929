"""The part of a sequence that comes from the tiers below the pool, or goes there."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.cache.backing import Backing, Load
from kvtool.cache.block_keys import BlockKeys
from kvtool.cache.block_pool import Tokens
from kvtool.cache.group_cache import GroupCache
from kvtool.cache.saving import next_save
from kvtool.cache.sequence import SequenceKV
from kvtool.cache.stats import CacheStats
from kvtool.cache.transfers import Transfers
from kvtool.config import CacheConfig


class Below:
    """What `CacheManager` does for a sequence where there is a backing."""

    def __init__(
        self,
        backing: Backing,
        groups: Sequence[GroupCache],
        config: CacheConfig,
        transfers: Transfers,
        stats: CacheStats,
    ) -> None:
        self.backing = backing
        self._groups = groups
        self._block_size = config.block_size
        self._full_blocks_only = config.prefix_index == "chain"
        self._transfers = transfers
        self._stats = stats

    def begin(self, kv: SequenceKV, tokens: Tokens) -> None:
        kv.keys = BlockKeys(kv.namespace, tokens, self._block_size)
        kv.num_saved_blocks = kv.num_committed_blocks

    def extend_hit(self, kv: SequenceKV, align: int) -> None:
        """See `CacheManager.extend_hit`."""
        if kv.keys is None:
            return
        size, first = self._block_size, kv.num_cached // self._block_size
        whole_blocks = align > 1 or self._full_blocks_only
        stored = self.backing.match(kv.keys, first, whole_blocks=whole_blocks)
        hit = first * size + sum(block.num_tokens for block in stored)
        if align > 1:
            hit = min(hit, len(kv.keys.tokens) - 1) // align * align
        if hit <= kv.num_cached:
            return
        for group in self._groups:
            group.cut(kv, first)
        kv.stored = stored[: -(-hit // size) - first]
        kv.num_cached = hit
        for block in kv.stored:
            if block.num_tokens < size or self.backing.is_promoted(block):
                break
            kv.num_saved_blocks += 1
        if kv.query:
            kv.query = kv.query._replace(num_hit_tokens=hit)

    def reserve_load(self, kv: SequenceKV) -> None:
        """`kv.stored` has slots now; the coming step fills them."""
        first = -(-kv.num_cached // self._block_size) - len(kv.stored)
        blocks = tuple(table.ids(first, first + len(kv.stored)) for table in kv.tables)
        kv.load = Load(kv.stored, blocks)
        kv.stored = ()
        self._transfers.hold(kv.load, blocks)

    def end_step(self, kv: SequenceKV, tokens: Tokens) -> None:
        """The load of the step is over, or never began if the step did not."""
        if kv.load is not None:
            if kv.load.claim():
                assert not len(tokens), "committed what was not loaded"
                kv.load.end()
            elif len(tokens):
                self._stats.count_loaded(kv.load)
            kv.load = None
        if kv.keys is not None:
            kv.keys.extend(tokens)

    def save(self, kv: SequenceKV, at_least: int = 1, tail: Tokens | None = None) -> None:
        """Write below what is committed and not written yet; tail: tokens of the whole sequence,
        with its partly filled last block."""
        save = next_save(kv, self._block_size, at_least, tail)
        if save is not None:
            end = save.run.home // self._block_size + len(save.run.keys)
            self._transfers.hold(save, tuple(table.ids(0, end) for table in kv.tables))
            self.backing.save(save)
