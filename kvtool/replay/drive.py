"""The loop: requests arrive, the engine steps, requests end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvtool.cache.common_prefix import common_prefix
from kvtool.engine.batch import Batch
from kvtool.engine.engine import Engine
from kvtool.engine.request import Request
from kvtool.engine.verify import Verification
from kvtool.replay.arrivals import Arrival, Source
from kvtool.replay.clock import Clock
from kvtool.replay.observed import observed
from kvtool.replay.occupancy import Occupancy
from kvtool.replay.outcome import OutcomeSink
from kvtool.replay.tracked import Tracked
from kvtool.traces.prepared import PreparedRequest, Unit

Steps = Callable[["Drive"], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """track: the engine's request for an arrival; raises where it can never run. spend: time
    passes for a batch that was carried out, of so many steps. look_ahead: how many steps the next
    one may be. decode_s: between first and last token, where the engine does not decode. verify:
    asked of every request that has ended."""

    track: Callable[[Arrival], Tracked]
    on_outcome: OutcomeSink
    spend: Callable[[Batch, dict[int, Tracked], int], None] = lambda batch, tracked, steps: None
    look_ahead: Steps = lambda drive: 1
    decode_s: Callable[[PreparedRequest], float] = lambda prepared: 0.0
    verify: Callable[[Request], Verification | None] = lambda request: None


class Drive:
    """Takes an engine through a trace."""

    def __init__(
        self, engine: Engine, source: Source, clock: Clock, unit: Unit, calls: Calls, want_ids: bool
    ) -> None:
        self.engine = engine
        self.source = source
        self.clock = clock
        self.occupancy = Occupancy(engine.manager)
        self._unit = unit
        self._calls = calls
        self._want_ids = want_ids
        self._tracked: dict[int, Tracked] = {}
        self._steps = 1
        self._evicted = 0  # blocks, before the step

    def run(self) -> None:
        """To the end of the trace. Whatever interrupts it leaves an engine without requests."""
        executor = self.engine.executor
        self.engine.executor = observed(executor, self._before, self._after)
        try:
            while self._arrive():
                self._step()
            self.source.check_exhausted()
        finally:
            self.engine.executor = executor
            for tracked in self._tracked.values():
                self.engine.abort(tracked.request)

    def _arrive(self) -> bool:
        """Whether there is anything to compute."""
        while True:
            for arrival in self.source.due(self.clock.now_s):
                tracked = self._calls.track(arrival)
                self.engine.add(tracked.request)
                self._tracked[tracked.request.id] = tracked
            if self._tracked:
                return True
            next_s = self.source.next_s()
            if next_s is None:
                return False
            self.clock.skip_to(next_s)

    def _step(self) -> None:
        self._steps = self._calls.look_ahead(self)
        self._evicted = self.engine.manager.stats.evicted_blocks
        for request in self.engine.step():
            tracked = self._tracked[request.id]
            if request.error is not None:
                raise request.error
            if tracked.first_token_s is None:
                tracked.first_token_s = self.clock.now_s
            if request.is_finished:
                self._end(tracked)
        self.occupancy.observe(self.clock.now_s)

    def _before(self, batch: Batch) -> None:
        for scheduled in batch.scheduled:
            tracked = self._tracked.get(scheduled.request.id)
            if tracked is None:
                continue
            if tracked.start_s is None:
                self._start(tracked)
            if self._want_ids:
                tracked.block_ids = tuple(scheduled.entries[0][:, 0].tolist())

    def _after(self, batch: Batch) -> None:
        self._calls.spend(batch, self._tracked, self._steps)

    def _start(self, tracked: Tracked) -> None:
        request = tracked.request
        assert request.kv is not None
        tracked.start_s = self.clock.now_s
        tracked.hit = request.kv.num_cached
        tracked.evicted = self._evicted
        tracked.in_flight = self._in_flight(request)

    def _in_flight(self, request: Request) -> int:
        assert request.kv is not None
        size, hit = self._unit.block_size, request.kv.num_cached
        shared = [
            common_prefix(request.prompt_ids, other.tokens)
            for other in self.engine.scheduler.running
            if other is not request and other.namespace == request.namespace
        ]
        return max(0, max(shared, default=0) // size * size - hit)

    def _end(self, tracked: Tracked) -> None:
        del self._tracked[tracked.request.id]
        end_s = self.clock.now_s + self._calls.decode_s(tracked.prepared)
        evicted = self.engine.manager.stats.evicted_blocks
        verification = self._calls.verify(tracked.request)
        self._calls.on_outcome(tracked.outcome(self._unit, end_s, evicted, verification))
        self.source.ended(tracked.prepared.request, end_s)
