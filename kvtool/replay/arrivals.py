"""When the requests of a trace arrive: by the clock, or some time after others have ended."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple, Protocol

from kvtool.errors import InputError
from kvtool.traces.prepared import PreparedRequest
from kvtool.traces.trace_request import TraceRequest


class Arrival(NamedTuple):
    prepared: PreparedRequest
    arrival_s: float


class Source(Protocol):
    """Where the requests of a replay come from."""

    def due(self, now_s: float) -> list[Arrival]:
        """Those that have arrived by now."""
        ...

    def next_s(self) -> float | None:
        """When the next one arrives, if nothing else ends before; None: there is none."""
        ...

    def ended(self, request: TraceRequest, end_s: float) -> None: ...

    def check_exhausted(self) -> None:
        """Raises `InputError` for requests that have never arrived."""
        ...


class OneByOne:
    """Each request arrives when the one before it has ended, whatever its time."""

    def __init__(self, requests: Iterable[PreparedRequest]) -> None:
        self._requests = iter(requests)
        self._next = next(self._requests, None)
        self._free_s: float | None = 0.0  # None: one is under way

    def due(self, now_s: float) -> list[Arrival]:
        if self._next is None or self._free_s is None or now_s < self._free_s:
            return []
        arrival = Arrival(self._next, now_s)
        self._next = next(self._requests, None)
        self._free_s = None
        return [arrival]

    def next_s(self) -> float | None:
        return None if self._next is None else self._free_s

    def ended(self, request: TraceRequest, end_s: float) -> None:
        self._free_s = end_s

    def check_exhausted(self) -> None:
        assert self._next is None


@dataclass(slots=True)
class _Parked:
    prepared: PreparedRequest
    missing: set[str]
    earliest_s: float


class Arrivals:
    """In order of arrival: no earlier than `arrival_s` says, and no earlier than `delay_s` after
    the last request in `after` has ended (closed loop).

    requests: read as far ahead as the clock, or an end that is waited for, demands; in order of
    time, as far as they have one. awaited: ids that any request waits for; None: perhaps all, and
    the end of each is kept.
    """

    def __init__(
        self, requests: Iterable[PreparedRequest], awaited: Container[str] | None = None
    ) -> None:
        self._requests: Iterator[PreparedRequest] = iter(requests)
        self._awaited = awaited
        self._is_read = False
        self._read_to_s = 0.0
        self._known: list[tuple[float, int, PreparedRequest]] = []  # a heap
        self._parked: dict[str, list[_Parked]] = {}  # by the ids they wait for
        self._ends: dict[str, float] = {}

    def due(self, now_s: float) -> list[Arrival]:
        arrivals = []
        while (when_s := self.next_s()) is not None and when_s <= now_s:
            _, _, prepared = heappop(self._known)
            arrivals.append(Arrival(prepared, when_s))
        return arrivals

    def next_s(self) -> float | None:
        while not self._is_read and not (self._known and self._known[0][0] <= self._read_to_s):
            self._read()
        return self._known[0][0] if self._known else None

    def ended(self, request: TraceRequest, end_s: float) -> None:
        if self._awaited is None or request.id in self._awaited:
            self._ends[request.id] = end_s
        for parked in self._parked.pop(request.id, ()):
            parked.missing.discard(request.id)
            parked.earliest_s = max(parked.earliest_s, self._after(parked.prepared, end_s))
            if not parked.missing:
                self._push(parked.prepared, parked.earliest_s)

    def check_exhausted(self) -> None:
        for parked in (parked for waiting in self._parked.values() for parked in waiting):
            request, missing = parked.prepared.request, sorted(parked.missing)
            raise InputError(
                f"{request.place}: request {request.id} waits for {', '.join(missing)}, which "
                "never ends: no such request comes before it, or they wait for each other.",
                hint="Use --replay serial, which takes requests in the order of the trace.",
            )

    def _read(self) -> None:
        prepared = next(self._requests, None)
        if prepared is None:
            self._is_read = True
            return
        request = prepared.request
        if request.arrival_s is None and not request.after:
            raise InputError(
                f"{request.place}: request {request.id} has no arrival time.",
                hint="Use --replay serial, which needs none.",
            )
        earliest_s = request.arrival_s or 0.0
        if request.arrival_s is not None:
            self._read_to_s = max(self._read_to_s, request.arrival_s)
        ends = [self._ends[other] for other in request.after if other in self._ends]
        earliest_s = max([earliest_s, *(self._after(prepared, end_s) for end_s in ends)])
        missing = {other for other in request.after if other not in self._ends}
        if not missing:
            self._push(prepared, earliest_s)
            return
        parked = _Parked(prepared, missing, earliest_s)
        for other in missing:
            self._parked.setdefault(other, []).append(parked)

    def _push(self, prepared: PreparedRequest, when_s: float) -> None:
        heappush(self._known, (when_s, prepared.index, prepared))

    @staticmethod
    def _after(prepared: PreparedRequest, end_s: float) -> float:
        return end_s + prepared.request.delay_s


def awaited_ids(requests: Iterable[TraceRequest]) -> frozenset[str]:
    """Ids that any of them waits for."""
    return frozenset(other for request in requests for other in request.after)
