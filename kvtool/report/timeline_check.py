"""Whether a trace viewer shows every event of a timeline: Perfetto drops bad ones in silence.

The rules are those of the Trace Event Format (Chrome's tracing, read by Perfetto).
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

Event = Mapping[str, Any]
Track = tuple[int, int]

PHASES = frozenset("MXBEiCsf")
INSTANT_SCOPES = frozenset("tpg")
TOLERANCE = 5e-4  # µs: half a nanosecond, less than viewers tell apart


class TimelineError(ValueError):
    """The first thing that a viewer would drop or draw wrongly."""


class _End(NamedTuple):
    """Of a flow."""

    track: Track
    ts: float


def check_timeline(events: Iterable[Event]) -> int:
    """The number of events. Raises `TimelineError`. Memory: 16 bytes a slice."""
    check, number = _Check(), -1
    for number, event in enumerate(events):
        try:
            check.add(event)
        except TimelineError as error:
            raise TimelineError(f"event {number}: {error}") from None
    check.finish()
    return number + 1


class _Check:
    def __init__(self) -> None:
        self._slices: dict[Track, tuple[array[float], array[float]]] = {}
        self._open: defaultdict[Track, list[float]] = defaultdict(list)
        self._starts: dict[tuple[str, Any], _End] = {}
        self._stops: dict[tuple[str, Any], _End] = {}

    def add(self, event: Event) -> None:
        phase = event.get("ph")
        if phase not in PHASES:
            raise TimelineError(f"unknown phase {phase!r}")
        track = _track(event)
        if phase != "E" and not isinstance(event.get("name"), str):
            raise TimelineError("it has no name")
        if phase == "M":
            return
        ts = _number(event, "ts")
        if phase == "X":
            self._add_slice(track, ts, _number(event, "dur"))
        elif phase == "B":
            self._open[track].append(ts)
        elif phase == "E":
            self._end(track, ts)
        elif phase == "C":
            _check_counter(event)
        elif phase == "i" and event.get("s") not in INSTANT_SCOPES:
            raise TimelineError(f"an instant of scope {event.get('s')!r}")
        elif phase in "sf":
            self._add_flow(event, _End(track, ts))

    def finish(self) -> None:
        """What can be seen only when all is there."""
        if any(self._open.values()):
            raise TimelineError("a slice begins and never ends")
        covered = {track: _Covered(*columns) for track, columns in self._slices.items()}
        if self._starts.keys() != self._stops.keys():
            raise TimelineError("a flow has one end only")
        for key, start in self._starts.items():
            stop = self._stops[key]
            if stop.ts < start.ts:
                raise TimelineError(f"flow {key} ends before it starts")
            if not all(
                end.track in covered and end.ts in covered[end.track] for end in (start, stop)
            ):
                raise TimelineError(f"flow {key} has an end outside of any slice")

    def _add_slice(self, track: Track, ts: float, duration: float) -> None:
        starts, durations = self._slices.setdefault(track, (array("d"), array("d")))
        starts.append(ts)
        durations.append(duration)

    def _end(self, track: Track, ts: float) -> None:
        if not self._open[track]:
            raise TimelineError("a slice ends that did not begin")
        start = self._open[track].pop()
        if ts < start:
            raise TimelineError("a slice ends before it begins")
        self._add_slice(track, start, ts - start)

    def _add_flow(self, event: Event, end: _End) -> None:
        key = (str(event.get("cat")), event.get("id"))
        ends = self._starts if event["ph"] == "s" else self._stops
        if key[1] is None or key in ends:
            raise TimelineError("a flow without an id, or with that of another")
        if event["ph"] == "f" and event.get("bp") != "e":
            raise TimelineError("a flow that is not bound to the slice it ends in (bp)")
        ends[key] = end


class _Covered:
    """The times of a track at which a slice is shown. Raises `TimelineError` for slices that overlap
    and are not one inside of the other."""

    def __init__(self, starts: Sequence[float], durations: Sequence[float]) -> None:
        slices = sorted(zip(starts, durations), key=lambda s: (s[0], -s[1]))
        _check_nested(slices)
        self._starts = [start for start, _ in slices]
        self._ends = list(accumulate((start + length for start, length in slices), max))

    def __contains__(self, ts: float) -> bool:
        before = bisect_right(self._starts, ts)
        return before > 0 and ts < self._ends[before - 1]


def _track(event: Event) -> Track:
    pid, tid = event.get("pid"), event.get("tid", 0)
    if type(pid) is not int or type(tid) is not int:
        raise TimelineError("pid and tid must be whole numbers")
    return pid, tid


def _number(event: Event, name: str) -> float:
    value: Any = event.get(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0:
        raise TimelineError(f"{name} must be a number from 0, it is {value!r}")
    return float(value)


def _check_counter(event: Event) -> None:
    values = event.get("args")
    if not isinstance(values, Mapping) or not values:
        raise TimelineError("a counter without values")
    for name in values:
        _number(values, name)


def _check_nested(slices: Iterable[tuple[float, float]]) -> None:
    """Slices of a track in the order of their starts, longest first."""
    ends: list[float] = []
    for start, duration in slices:
        while ends and ends[-1] <= start + TOLERANCE:
            ends.pop()
        if ends and start + duration > ends[-1] + TOLERANCE:
            raise TimelineError(f"slices of a track overlap at {start} µs")
        ends.append(start + duration)
