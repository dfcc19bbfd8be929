"""Requests one at a time, straight through the cache.

A request that nothing runs beside, and whose prompt goes into one step, leaves a scheduler nothing
to decide. Here `CacheManager` is asked directly for what it would ask for, in less time.
"""

from __future__ import annotations

from collections.abc import Iterable

from kvtool.cache.manager import CacheManager
from kvtool.engine.cached_tokens import DEVICE
from kvtool.replay.clock import VirtualClock
from kvtool.replay.occupancy import Occupancy
from kvtool.replay.outcome import OutcomeSink, RequestOutcome, tokens_in
from kvtool.replay.replies import Replies, num_output_tokens
from kvtool.replay.settings import ReplaySettings
from kvtool.traces.prepared import PreparedRequest


class Alone:
    """Replies leave no KV. Not for caches with moved text, whose plans the scheduler carries out."""

    def __init__(
        self, manager: CacheManager, settings: ReplaySettings, replies: Replies, clock: VirtualClock
    ) -> None:
        assert manager.shift is None and not settings.output_kv
        self.clock = clock
        self.occupancy = Occupancy(manager)
        self._manager = manager
        self._settings = settings
        self._replies = replies
        self._unit = settings.unit
        self._cost = settings.cost
        self._step_s = settings.cost.decode_s(1)

    def run(self, requests: Iterable[PreparedRequest], on_outcome: OutcomeSink) -> None:
        """Raises `CacheError` for a request that is larger than the pool."""
        stats, capacity = self._manager.stats, self._manager.num_blocks * self._unit.block_size
        for prepared in requests:
            if len(prepared.symbols) > capacity:
                self._settings.check_fits(prepared, self._replies)
            evicted = stats.evicted_blocks
            hit, blocks = self._serve(prepared)
            if hit == len(prepared.symbols):
                stats.count_full_hit()
            on_outcome(self._outcome(prepared, hit, stats.evicted_blocks - evicted, blocks))
            self.occupancy.observe(self.clock.now_s)

    def _serve(self, prepared: PreparedRequest) -> tuple[int, list[int]]:
        """Symbols that were cached, and the blocks of all."""
        symbols, manager = prepared.symbols, self._manager
        namespace, priority = prepared.namespace, prepared.request.priority
        passed = manager.pass_through(symbols, namespace, priority)
        if passed is not None:
            found, filled = passed
            hit = len(found) * self._unit.block_size
            return hit, found + filled
        kv = manager.begin(symbols, namespace, priority=priority)
        if manager.allocate(kv, len(symbols)) is None:
            # To go on inside a cached block takes a copy, and the pool has no block for it.
            manager.free(kv, symbols[:0])
            kv = manager.begin(symbols, namespace, align=self._unit.block_size, counted=False)
            manager.allocate(kv, len(symbols))
        hit, block_ids = kv.num_cached, kv.tables[0].block_ids
        manager.free(kv, symbols)
        return hit, block_ids

    def _outcome(
        self, prepared: PreparedRequest, hit: int, evicted: int, blocks: list[int]
    ) -> RequestOutcome:
        start_s, num_output = self.clock.now_s, num_output_tokens(prepared)
        hit_tokens = tokens_in(hit, prepared, self._unit)
        cached = min(hit_tokens, prepared.num_tokens - 1)
        first_token_s = start_s + self._cost.prefill_s(cached, prepared.num_tokens)
        end_s = first_token_s + max(0, num_output - 1) * self._step_s
        self.clock.skip_to(end_s)
        return RequestOutcome(
            index=prepared.index,
            id=prepared.request.id,
            arrival_s=start_s,
            start_s=start_s,
            first_token_s=first_token_s,
            end_s=end_s,
            prompt_tokens=prepared.num_tokens,
            hit_tokens=hit_tokens,
            cached_tokens=cached,
            output_tokens=num_output,
            num_blocks=len(blocks),
            hit_blocks=hit // self._unit.block_size,
            evicted_blocks=evicted,
            cached_by_tier={DEVICE: cached} if cached else {},
            block_ids=tuple(blocks) if self._settings.block_ids else None,
        )
