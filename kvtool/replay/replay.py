"""`Replay`: a trace through the engine's own scheduler and cache, without a model."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from math import ceil

from kvtool.cache.group import GroupSpec
from kvtool.cache.manager import CacheManager
from kvtool.engine.batch import Batch
from kvtool.engine.engine import Engine
from kvtool.engine.executor import Executor
from kvtool.engine.simulated import SimulatedExecutor
from kvtool.replay.alone import Alone
from kvtool.replay.arrivals import Arrival, Arrivals, OneByOne, Source
from kvtool.replay.bulk import num_steps, take_ahead
from kvtool.replay.clock import VirtualClock
from kvtool.replay.drive import Calls, Drive
from kvtool.replay.occupancy import OccupancyPoint
from kvtool.replay.outcome import OutcomeSink, RequestOutcome
from kvtool.replay.pace import batch_s
from kvtool.replay.replies import Replies, num_output_tokens
from kvtool.replay.settings import ReplaySettings
from kvtool.replay.totals import Totals
from kvtool.replay.tracked import Tracked
from kvtool.traces.prepared import PreparedRequest

_GROUPS = (GroupSpec(layers=(0,), kind="kv", num_kv_heads=1, head_dim=1, dtype="float32"),)
_VOCAB_SIZE = 1  # every reply is given

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class ReplayResult:
    totals: Totals
    occupancy: list[OccupancyPoint]


class Replay:
    """One trace through one empty cache.

    on_outcome: gets every outcome when its request has ended; nothing of it is kept here.
    progress: called with the number of requests that have ended. executor: instead of the one
    without weights, with the same virtual clock. Memory grows with the blocks of the cache and
    the requests in flight, in a closed loop also with those that wait for others to end.
    """

    def __init__(
        self,
        settings: ReplaySettings,
        *,
        on_outcome: OutcomeSink | None = None,
        progress: Progress | None = None,
        executor: Executor | None = None,
    ) -> None:
        self.settings = settings
        self.totals = Totals()
        executor = executor or SimulatedExecutor(_GROUPS, _VOCAB_SIZE)
        manager = CacheManager(executor.groups, settings.cache)
        self.manager = manager
        self.clock = VirtualClock()
        self._executor = executor
        self._replies = Replies(settings.unit, output_kv=settings.output_kv)
        self._on_outcome = on_outcome
        self._progress = progress

    def run(
        self, requests: Iterable[PreparedRequest], awaited: Container[str] | None = None
    ) -> ReplayResult:
        """Raises `CacheError` for a request larger than the cache, `InputError` for one that can
        never arrive. awaited: see `Arrivals`."""
        settings = self.settings
        is_plain = not settings.output_kv and settings.cache.reuse != "shift"
        if settings.mode == "serial" and is_plain and not settings.stepwise:
            occupancy = self._run_alone(requests)
        else:
            occupancy = self._run_driven(requests, awaited)
        self.totals.evicted_blocks = self.manager.stats.evicted_blocks
        self.totals.peak_held_blocks = self.manager.peak_held_blocks
        return ReplayResult(self.totals, occupancy)

    def _run_alone(self, requests: Iterable[PreparedRequest]) -> list[OccupancyPoint]:
        alone = Alone(self.manager, self.settings, self._replies, self.clock)
        alone.run(requests, self._end)
        return alone.occupancy.points

    def _run_driven(
        self, requests: Iterable[PreparedRequest], awaited: Container[str] | None
    ) -> list[OccupancyPoint]:
        settings = self.settings
        is_serial = settings.mode == "serial"
        source: Source = OneByOne(requests) if is_serial else Arrivals(requests, awaited)
        engine = Engine(
            self._executor, self.manager, settings.scheduler, clock=lambda: self.clock.now_s
        )
        step_s = settings.cost.decode_s(1)
        calls = Calls(
            track=self._track,
            on_outcome=self._end,
            spend=self._spend,
            look_ahead=self._look_ahead,
            decode_s=lambda prepared: self._replies.decode_s(prepared, step_s),
        )
        drive = Drive(engine, source, self.clock, settings.unit, calls, settings.block_ids)
        drive.run()
        return drive.occupancy.points

    def _track(self, arrival: Arrival) -> Tracked:
        prepared = arrival.prepared
        self.settings.check_fits(prepared, self._replies)
        request = self._replies.request(prepared)
        return Tracked(prepared, request, num_output_tokens(prepared), arrival.arrival_s)

    def _spend(self, batch: Batch, tracked: dict[int, Tracked], steps: int) -> None:
        settings = self.settings
        self.clock.advance(batch_s(batch, tracked, steps, settings.cost, settings.unit))

    def _look_ahead(self, drive: Drive) -> int:
        """Replies go on in bulk up to the next arrival or end."""
        scheduler = drive.engine.scheduler
        running = scheduler.running
        if self.settings.stepwise or not running:
            return 1
        limit = scheduler.config.max_num_batched_tokens // len(running)
        next_s = drive.source.next_s()
        if next_s is not None:
            until = ceil((next_s - self.clock.now_s) * self.settings.cost.decode_rate)
            limit = min(limit, until)
        steps = num_steps(scheduler, limit)
        take_ahead(running, steps)
        return steps

    def _end(self, outcome: RequestOutcome) -> None:
        self.totals.add(outcome)
        if self._on_outcome is not None:
            self._on_outcome(outcome)
        if self._progress is not None:
            self._progress(self.totals.requests)
