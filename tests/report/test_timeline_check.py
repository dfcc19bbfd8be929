"""What trace viewers would drop or draw wrongly is found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from kvtool.report.timeline_check import TimelineError, check_timeline

Event = dict[str, Any]


def piece(ts: float = 0, dur: float = 10, **more: Any) -> Event:
    return {"name": "a", "ph": "X", "pid": 1, "tid": 1, "ts": ts, "dur": dur} | more


def event(ph: str, ts: float = 0, **more: Any) -> Event:
    return {"name": "a", "ph": ph, "pid": 1, "tid": 1, "ts": ts} | more


GOOD = [
    {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "p"}},
    piece(0, 10),
    piece(0, 4),
    piece(4, 6),
    piece(10, 1),
    piece(3, 100, tid=2),
    event("B", 20),
    event("B", 21),
    event("E", 22),
    event("E", 30),
    event("i", 5, s="t"),
    event("C", 5, args={"held": 1, "free": 0.5}),
    event("s", 1, cat="reuse", id=7),
    event("f", 50, cat="reuse", id=7, bp="e", tid=2),
]


def test_a_good_one_passes_and_is_counted() -> None:
    assert check_timeline(GOOD) == len(GOOD)
    assert check_timeline([]) == 0


def flow(start: Mapping[str, Any], stop: Mapping[str, Any]) -> list[Event]:
    first = event("s", 1, cat="c", id=1) | start
    return [piece(0, 10), first, event("f", 2, cat="c", id=1, bp="e") | stop]


BAD = {
    "unknown phase": [event("Z")],
    "no name": [{"ph": "X", "pid": 1, "tid": 1, "ts": 0, "dur": 1}],
    "pid and tid": [piece(pid="1")],
    "ts must be": [piece(ts=-1)],
    "ts must be a": [piece(ts=math.nan)],
    "ts must": [piece(ts=True)],
    "dur must be": [piece(dur=-0.5)],
    "dur must be a number": [piece(dur=None)],
    "ends that did not begin": [event("E")],
    "never ends": [event("B")],
    "before it begins": [event("B", 5), event("E", 4)],
    "overlap": [piece(0, 10), piece(5, 10)],
    "scope": [event("i", s="x")],
    "without values": [event("C", args={})],
    "held must be": [event("C", args={"held": math.inf})],
    "one end only": flow({}, {})[:-1],
    "with that of another": [*flow({}, {}), event("s", 1, cat="c", id=1)],
    "without an id": flow({"id": None}, {}),
    "not bound": flow({}, {"bp": None}),
    "before it starts": flow({}, {"ts": 0.5}),
    "outside of any": flow({}, {"ts": 10}),
    "outside of any slice": flow({}, {"tid": 2}),
}


@pytest.mark.parametrize("message", BAD)
def test_a_bad_one_is_told(message: str) -> None:
    with pytest.raises(TimelineError, match=message):
        check_timeline(BAD[message])


def test_the_event_is_named() -> None:
    with pytest.raises(TimelineError, match="event 2: unknown phase 'Z'"):
        check_timeline([*GOOD[:2], event("Z")])
