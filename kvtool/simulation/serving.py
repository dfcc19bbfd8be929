"""A workload through an engine: what became of each request, in the order of the workload."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from kvtool.analysis.served import Served, ServedTable
from kvtool.replay.arrivals import awaited_ids
from kvtool.replay.model import LoadedModel, ModelSettings, replay_on_model
from kvtool.replay.occupancy import OccupancyPoint
from kvtool.replay.outcome import RequestOutcome
from kvtool.replay.replay import Progress, Replay
from kvtool.replay.totals import Totals
from kvtool.simulation.settings import SimulationSettings
from kvtool.simulation.workload import Workload
from kvtool.traces.prepared import PreparedRequest
from kvtool.traces.trace_request import TraceRequest

OnServed = Callable[[RequestOutcome, TraceRequest], None]


@dataclass(frozen=True, slots=True)
class Serving:
    totals: Totals
    occupancy: list[OccupancyPoint]
    served: ServedTable


def serve(
    workload: Workload,
    settings: SimulationSettings,
    num_blocks: int,
    *,
    on_served: OnServed | None = None,
    progress: Progress | None = None,
    block_ids: bool = False,
) -> Serving:
    """Without a model, on a virtual clock. Raises `CacheError` for a request larger than the
    cache, `InputError` for one that can never arrive."""
    sink = _Sink(workload, on_served)
    replay_settings = settings.replay(workload.unit, num_blocks, block_ids=block_ids)
    replay = Replay(replay_settings, on_outcome=sink.add, progress=progress)
    result = replay.run(sink.passing(workload), _awaited(workload, settings))
    return Serving(result.totals, result.occupancy, sink.served)


def serve_on_model(
    workload: Workload,
    settings: SimulationSettings,
    model: LoadedModel,
    *,
    on_served: OnServed | None = None,
    progress: Progress | None = None,
    block_ids: bool = False,
) -> Serving:
    """Text, rendered with the model's own tokenizer; times are measured. Raises what
    `replay_on_model` raises."""
    sink = _Sink(workload, on_served)
    result = replay_on_model(
        model,
        sink.passing(workload),
        ModelSettings(
            mode=settings.mode,
            replies=settings.replies,
            verify=settings.verify,
            block_ids=block_ids,
        ),
        on_outcome=sink.add,
        progress=progress,
        awaited=_awaited(workload, settings),
    )
    return Serving(result.totals, result.occupancy, sink.served)


def hits_of(workload: Workload, settings: SimulationSettings, num_blocks: int) -> Totals:
    """What one more replay without a model finds."""
    return serve(workload, settings, num_blocks).totals


def _awaited(workload: Workload, settings: SimulationSettings) -> frozenset[str]:
    return awaited_ids(workload.trace) if settings.mode == "arrival" else frozenset()


class _Sink:
    """Outcomes come in the order of ends, and name a request by its place in the files."""

    def __init__(self, workload: Workload, on_served: OnServed | None) -> None:
        self.served = ServedTable(len(workload))
        self._on_served = on_served
        self._running: dict[int, tuple[int, TraceRequest]] = {}

    def passing(self, requests: Iterable[PreparedRequest]) -> Iterator[PreparedRequest]:
        for position, prepared in enumerate(requests):
            self._running[prepared.index] = position, prepared.request
            yield prepared

    def add(self, outcome: RequestOutcome) -> None:
        position, request = self._running.pop(outcome.index)
        self.served.put(_served(position, outcome))
        if self._on_served is not None:
            self._on_served(outcome, request)


def _served(position: int, outcome: RequestOutcome) -> Served:
    return Served(
        position=position,
        prompt_tokens=outcome.prompt_tokens,
        hit_tokens=outcome.hit_tokens,
        shifted_tokens=outcome.shifted_tokens,
        recomputed_tokens=outcome.recomputed_tokens,
        moved=outcome.moved,
        in_flight_tokens=outcome.in_flight_tokens,
        output_tokens=outcome.output_tokens,
        preemptions=outcome.preemptions,
        evicted_blocks=outcome.evicted_blocks,
        arrival_s=outcome.arrival_s,
        start_s=outcome.start_s,
        first_token_s=outcome.first_token_s,
        end_s=outcome.end_s,
    )
