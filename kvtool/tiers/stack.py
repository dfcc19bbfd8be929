"""The tiers below the pool, one behind the other: what the cache manager and the executor ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvtool.cache.backing import Load, Save, StoredBlock, StoredDonor
from kvtool.cache.block_keys import BlockKeys
from kvtool.cache.block_pool import Tokens
from kvtool.cache.events import EventSink
from kvtool.reuse.planner import Rules
from kvtool.tiers.load_or_compute import best_cut, seconds_saved
from kvtool.tiers.loading import Loading
from kvtool.tiers.lookup import coverage, stored_chain
from kvtool.tiers.memory import BlockMemory
from kvtool.tiers.rates import Rates
from kvtool.tiers.reading import Reader
from kvtool.tiers.text.search import TextSearch
from kvtool.tiers.tier import Tier
from kvtool.tiers.tier_events import TierEvents
from kvtool.tiers.tier_stats import TierStats
from kvtool.tiers.writing import Writer


class Tiers:
    """tiers: fastest first. One thread a tier reads, another writes; all other work is the
    caller's. It publishes the events too: a sink need not expect other threads.

    A tier may have `removed` and `spill` attributes to be told where to report what it drops
    (see `HostTier`).
    """

    def __init__(
        self,
        tiers: Sequence[Tier],
        memory: BlockMemory,
        rates: Rates,
        *,
        events: EventSink | None = None,
    ) -> None:
        self.tiers = tuple(tiers)
        self.rates = rates
        self._described: set[bytes] = set()
        self._block_size = memory.block_size
        self._block_bytes = sum(group.block_bytes(memory.block_size) for group in memory.groups)
        self._stats = {tier.name: TierStats() for tier in tiers}
        self._events = TierEvents(events, memory.block_size)
        self._reader = Reader(tiers, memory, self._stats, rates)
        self._writer = Writer(tiers, memory, self._stats, self._events)
        self._events.listen_to(tiers)
        self._search = TextSearch(tiers, memory.block_size, self._is_worth)

    def describe(self, namespace: bytes, fields: Mapping[str, object]) -> None:
        """Cheap for a namespace that is known already."""
        if namespace in self._described:
            return
        self._described.add(namespace)
        for tier in self.tiers:
            tier.describe(namespace, fields)

    def match(
        self, keys: BlockKeys, first_block: int, *, whole_blocks: bool
    ) -> tuple[StoredBlock, ...]:
        self._events.publish()
        found = stored_chain(self.tiers, keys, first_block, whole_blocks=whole_blocks)
        cut = best_cut([self._seconds_saved(block.tier, block.num_tokens) for block in found])
        self._skip(found[cut:])
        return tuple(found[:cut])

    def donors(
        self, tokens: Tokens, pieces: Sequence[tuple[int, int]], namespace: bytes, rules: Rules
    ) -> list[StoredDonor]:
        self._events.publish()
        return self._search.donors(tokens, pieces, namespace, rules)

    def is_promoted(self, block: StoredBlock) -> bool:
        return block.tier != self.tiers[0].name

    def computed(self, num_tokens: int, seconds: float) -> None:
        self.rates.computed(num_tokens, seconds)

    def save(self, save: Save) -> None:
        self._writer.start(save)
        self._events.publish()

    def start(self, load: Load) -> Loading:
        """Begin to read; the load ends by itself, after a failure too."""
        return self._reader.start(load)

    def flush(self, timeout_s: float | None = None) -> bool:
        """Whether all saves have ended, after at most `timeout_s`."""
        has_ended = self._writer.flush(timeout_s)
        self._events.publish()
        return has_ended

    def coverage(self, keys: BlockKeys) -> dict[str, int]:
        """Tier -> leading tokens of the sequence that it could serve alone."""
        return {tier.name: coverage(tier, keys) for tier in self.tiers}

    def report(self) -> list[dict[str, object]]:
        """One row a tier: what was moved (`TierStats`) and how fast."""
        return [
            {
                "name": tier.name,
                **self._stats[tier.name].as_dict(),
                "bytes_per_s": self.rates.load_rate(tier.name),
                "compute_tokens_per_s": self.rates.compute_rate,
            }
            for tier in self.tiers
        ]

    def close(self, *, flush: bool = True) -> None:
        """flush False: what is not written yet is given up, and a tier that does not answer is left
        as it is."""
        has_written, has_read = self._writer.close(flush=flush), self._reader.close(flush=flush)
        self._events.publish()
        if has_written and has_read:
            for tier in self.tiers:
                tier.close()

    def check_integrity(self) -> None:
        for tier in self.tiers:
            tier.check_integrity()

    def _is_worth(self, blocks: Sequence[StoredBlock], num_tokens: int) -> bool:
        """Whether to load all of these blocks takes less time than to compute `num_tokens`."""
        share = num_tokens / len(blocks)
        if sum(self._seconds_saved(block.tier, share) for block in blocks) > 0:
            return True
        self._skip(blocks)
        return False

    def _skip(self, blocks: Sequence[StoredBlock]) -> None:
        for tier in {block.tier for block in blocks}:
            self.rates.doubt(tier)
            self._stats[tier].skipped([block for block in blocks if block.tier == tier])

    def _seconds_saved(self, tier: str, num_tokens: float) -> float:
        """By loading a block instead of computing so many tokens."""
        return seconds_saved(
            num_tokens, self._block_bytes, self.rates.load_rate(tier), self.rates.compute_rate
        )
