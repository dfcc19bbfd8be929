"""Why each missed token was missed, summed over the trace, over time and by session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappush, heappushpop
from typing import Any

from kvtool.analysis.accesses import Accesses
from kvtool.analysis.causes import RequestCauses, causes_of
from kvtool.analysis.served import CauseSettings, Served
from kvtool.simulation.request_row import request_row
from kvtool.simulation.serving import Serving
from kvtool.simulation.settings import SimulationSettings
from kvtool.simulation.workload import Workload
from kvtool.traces.prepared import Unit
from kvtool.traces.trace_request import TraceRequest

MAX_PERIODS = 120
TOP_REQUESTS = 20

OnRow = Callable[[dict[str, Any]], None]
Progress = Callable[[int], None]


@dataclass(slots=True)
class Tally:
    """Tokens of some requests in a row, or of one session; moved ones are hits too, but for those
    that are recomputed. t_s: when the first of them arrived."""

    first: int
    t_s: float | None = None
    requests: int = 0
    prompt_tokens: int = 0
    hit_tokens: int = 0
    recomputed_tokens: int = 0
    computed_tokens: int = 0
    causes: Counter[str] = field(default_factory=Counter)

    def add(self, served: Served, causes: Mapping[str, int]) -> None:
        self.requests += 1
        self.prompt_tokens += served.prompt_tokens
        self.hit_tokens += served.hit_tokens + served.shifted_tokens
        self.recomputed_tokens += served.recomputed_tokens
        self.computed_tokens += served.computed_tokens
        self.causes.update(causes)


@dataclass(slots=True)
class Misses:
    """causes: tokens by name, zeros left out. periods: the trace in at most MAX_PERIODS pieces.
    sessions: by name, None for requests of none. top: the requests that missed most, in no order,
    as (missed tokens, -position, row)."""

    num_requests: int
    total_tokens: int = 0
    recoverable_by_shift_tokens: int = 0
    causes: Counter[str] = field(default_factory=Counter)
    periods: dict[int, Tally] = field(default_factory=dict)
    sessions: dict[str | None, Tally] = field(default_factory=dict)
    top: list[tuple[int, int, dict[str, Any]]] = field(default_factory=list)

    def add(self, request: TraceRequest, served: Served, found: RequestCauses) -> dict[str, Any]:
        """Requests come in order. Returns the row."""
        position, causes = served.position, found.causes
        self.total_tokens += served.missed_tokens
        self.recoverable_by_shift_tokens += found.recoverable_by_shift_tokens
        self.causes.update(causes)
        period = position * min(MAX_PERIODS, self.num_requests) // self.num_requests
        new = Tally(position, request.arrival_s)
        self.periods.setdefault(period, new).add(served, causes)
        new = Tally(position, request.arrival_s)
        self.sessions.setdefault(request.session, new).add(served, causes)
        row = request_row(request, served) | {
            "causes": dict(causes),
            "recoverable_by_shift_tokens": found.recoverable_by_shift_tokens,
            "capacity_blocks": found.capacity_blocks,
        }
        keep = heappush if len(self.top) < TOP_REQUESTS else heappushpop
        keep(self.top, (served.missed_tokens, -position, row))
        return row


def cause_settings(settings: SimulationSettings, unit: Unit, num_blocks: int) -> CauseSettings:
    engine = settings.engine
    return CauseSettings(
        unit=unit,
        capacity_blocks=num_blocks,
        evict=engine.evict,
        prefix_index=engine.prefix_index,
        reuse=engine.reuse,
        min_run=settings.min_run,
        output_kv=settings.output_kv,
        repair=settings.repair,
    )


def find_misses(
    workload: Workload,
    serving: Serving,
    accesses: Accesses,
    settings: CauseSettings,
    *,
    on_row: OnRow | None = None,
    progress: Progress | None = None,
) -> Misses:
    """on_row: gets a JSON-able object for each request, in order."""
    misses = Misses(len(workload))
    for served, found, request in _explained(workload, serving, accesses, settings):
        row = misses.add(request, served, found)
        if on_row is not None:
            on_row(row)
        if progress is not None:
            progress(served.position + 1)
    return misses


def _explained(
    workload: Workload, serving: Serving, accesses: Accesses, settings: CauseSettings
) -> Iterator[tuple[Served, RequestCauses, TraceRequest]]:
    found = causes_of(workload, serving.served, accesses, settings)
    for request, causes in zip(workload.trace, found):
        yield serving.served[causes.position], causes, request
