"""A replay for trace viewers (ui.perfetto.dev, chrome://tracing): Chrome's Trace Event Format.

requests   a track a session: queued, prefill, decode inside of each request; instants for
           evictions and preemptions; an arrow from the request that computed what one hit
cache      a counter of blocks held, cached and free
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kvtool.replay.occupancy import OccupancyPoint
from kvtool.replay.outcome import RequestOutcome
from kvtool.report.timeline_check import check_timeline
from kvtool.report.timeline_flows import Flows, Moment
from kvtool.report.timeline_tracks import Track, Tracks
from kvtool.traces.prepared import Unit
from kvtool.traces.trace_request import TraceRequest

REQUESTS, CACHE = 1, 2  # processes
DEVICE = "device"
HEAD, TAIL = '{"displayTimeUnit": "ms", "traceEvents": [\n', "\n]}\n"

Event = Mapping[str, Any]


class Timeline:
    """Events go to the file as requests end; nothing of them is kept but where arrows may start.
    Raises `OSError`."""

    def __init__(self, path: Path, unit: Unit) -> None:
        self._path = path
        self._unit = unit
        self._file = path.open("w", encoding="utf-8")
        self._tracks = Tracks()
        self._flows = Flows()
        self._count = 0
        self._file.write(HEAD)
        for pid, name in ((REQUESTS, "requests"), (CACHE, "cache")):
            self._write(_named("process_name", pid, 0, name))

    def add(self, outcome: RequestOutcome, request: TraceRequest) -> None:
        """outcome: with its block ids, for arrows. In any order; in that of ends, a session has as
        few tracks as possible."""
        moments = (outcome.arrival_s, outcome.start_s, outcome.first_token_s, outcome.end_s)
        arrival, start, first_token, end = map(_nanoseconds, moments)
        track = self._tracks.place(request.session, arrival, end)
        if track.is_new:
            self._write(_named("thread_name", REQUESTS, track.tid, track.name))
        self._write(_slice(outcome.id, track.tid, arrival, end, _figures(outcome, request)))
        phases = (("queued", arrival, start), ("prefill", start, first_token))
        for name, since, until in (*phases, ("decode", first_token, end)):
            if until > since:
                self._write(_slice(name, track.tid, since, until, {}))
        for event in _instants(outcome, track, start):
            self._write(event)
        if end > start:
            self._follow(outcome, Moment(track.tid, start), first_token, end)

    def close(self, occupancy: Sequence[OccupancyPoint]) -> int:
        """The number of events, all of which were checked."""
        for point in occupancy:
            self._write(_counter(point))
        for number, flow in enumerate(self._flows):
            self._write(_arrow("s", number, flow.source))
            self._write(_arrow("f", number, flow.target) | {"bp": "e"})
        self._file.write(TAIL)
        self._file.close()
        if not self._path.is_file():  # a pipe cannot be read again
            return self._count
        checked = check_timeline(_events(self._path))
        assert checked == self._count
        return checked

    def _follow(self, outcome: RequestOutcome, start: Moment, ready: int, end: int) -> None:
        if outcome.block_ids is None:
            return
        ids, size = outcome.block_ids, self._unit.block_size
        hit = outcome.hit_blocks
        if set(outcome.cached_by_tier) - {DEVICE}:  # other tiers' blocks were loaded into new ones
            hit = outcome.cached_by_tier.get(DEVICE, 0) // self._unit.block_tokens
        if 0 < hit <= len(ids):
            self._flows.hit(ids[hit - 1], start)
        of_prompt = -(-outcome.prompt_tokens // (size * self._unit.tokens_per_symbol))
        self._flows.computed(ids[hit:of_prompt], start, ready)
        self._flows.computed(ids[of_prompt:], start, end)

    def _write(self, event: Event) -> None:
        self._file.write(",\n" if self._count else "")
        self._file.write(json.dumps(event, allow_nan=False))
        self._count += 1


def _figures(outcome: RequestOutcome, request: TraceRequest) -> dict[str, Any]:
    return {
        "place": str(request.place),
        "prompt_tokens": outcome.prompt_tokens,
        "hit_tokens": outcome.hit_tokens,
        "shifted_tokens": outcome.shifted_tokens,
        "computed_tokens": outcome.computed_tokens,
        "output_tokens": outcome.output_tokens,
        "evicted_blocks": outcome.evicted_blocks,
        "preemptions": outcome.preemptions,
    }


def _instants(outcome: RequestOutcome, track: Track, at: int) -> Iterator[Event]:
    """When exactly within the request, nobody noted: they stand at its start."""
    if outcome.evicted_blocks:
        yield _instant(f"{outcome.evicted_blocks} blocks evicted", track.tid, at)
    if outcome.preemptions:
        yield _instant(f"preempted {outcome.preemptions} times", track.tid, at)


def _nanoseconds(seconds: float) -> int:
    return round(1e9 * seconds)


def _slice(name: str, tid: int, since: int, until: int, args: Event) -> Event:
    times = {"ts": since / 1e3, "dur": (until - since) / 1e3}
    return {"name": name, "ph": "X", "pid": REQUESTS, "tid": tid, **times, "args": args}


def _instant(name: str, tid: int, at: int) -> Event:
    return {"name": name, "ph": "i", "s": "t", "pid": REQUESTS, "tid": tid, "ts": at / 1e3}


def _counter(point: OccupancyPoint) -> Event:
    blocks = {"held": point.held, "cached": point.cached, "free": point.free}
    ts = _nanoseconds(point.t_s) / 1e3
    return {"name": "blocks", "ph": "C", "pid": CACHE, "tid": 0, "ts": ts, "args": blocks}


def _arrow(phase: str, number: int, at: Moment) -> dict[str, Any]:
    where = {"pid": REQUESTS, "tid": at.tid, "ts": at.ns / 1e3}
    return {"name": "hit", "cat": "reuse", "ph": phase, "id": number, **where}


def _named(kind: str, pid: int, tid: int, name: str) -> Event:
    return {"name": kind, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}


def _events(path: Path) -> Iterator[Event]:
    """As written, an event a line, without the lines around them."""
    with path.open(encoding="utf-8") as file:
        next(file)
        for line in file:
            if line.startswith("{"):
                yield json.loads(line.rstrip(",\n"))
