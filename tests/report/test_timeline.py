"""The timeline of a replay: what is on it, and that viewers can draw all of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from report.replayed import EXAMPLES, TRACES, simulated

from kvtool.config import EngineConfig
from kvtool.replay.occupancy import OccupancyPoint
from kvtool.replay.outcome import RequestOutcome
from kvtool.report.timeline import Timeline
from kvtool.report.timeline_check import TimelineError, check_timeline
from kvtool.simulation.simulate import Listeners
from kvtool.traces.prepared import Unit
from kvtool.traces.trace_request import Place, TextPrompt, TraceRequest

Event = dict[str, Any]


def outcome(name: str, *times: float, blocks: Sequence[int] = (), hit: int = 0, **more: Any) -> Any:
    """times: arrival, start, first token, end. blocks: of 10 tokens."""
    arrival, start, first, end = times
    figures = {
        "index": 0,
        "id": name,
        "arrival_s": arrival,
        "start_s": start,
        "first_token_s": first,
        "end_s": end,
        "prompt_tokens": 10 * len(blocks),
        "hit_tokens": 10 * hit,
        "cached_tokens": 10 * hit,
        "output_tokens": 5,
        "num_blocks": len(blocks),
        "hit_blocks": hit,
        "cached_by_tier": {"device": 10 * hit} if hit else {},
        "block_ids": tuple(blocks),
    }
    session = more.pop("session", None)
    request = TraceRequest(
        id=name, place=Place("t.jsonl", 1), prompt=TextPrompt("x"), session=session
    )
    return RequestOutcome(**(figures | more)), request


def timeline(path: Path, *outcomes: Any, points: Sequence[OccupancyPoint] = ()) -> list[Event]:
    drawn = Timeline(path, Unit(1, 10))
    for one, request in outcomes:
        drawn.add(one, request)
    count = drawn.close(points)
    events: list[Event] = json.loads(path.read_text())["traceEvents"]
    assert len(events) == count
    return events


def named(events: list[Event], name: str) -> list[Event]:
    return [event for event in events if event["name"] == name]


def test_a_request_has_its_phases(tmp_path: Path) -> None:
    events = timeline(tmp_path / "t.json", outcome("r", 1.0, 1.5, 1.75, 2.0, session="s"))
    spans = {e["name"]: (e["ts"], e["dur"]) for e in events if e["ph"] == "X"}
    assert spans == {
        "r": (1e6, 1e6),
        "queued": (1e6, 5e5),
        "prefill": (1.5e6, 2.5e5),
        "decode": (1.75e6, 2.5e5),
    }
    assert [e["args"]["name"] for e in named(events, "thread_name")] == ["s"]
    assert named(events, "r")[0]["args"]["place"] == "t.jsonl:1"


def test_phases_that_take_no_time_are_left_out(tmp_path: Path) -> None:
    events = timeline(tmp_path / "t.json", outcome("r", 1.0, 1.0, 1.0, 2.0))
    assert [e["name"] for e in events if e["ph"] == "X"] == ["r", "decode"]


def test_requests_of_a_session_share_a_track_unless_they_overlap(tmp_path: Path) -> None:
    events = timeline(
        tmp_path / "t.json",
        outcome("a", 0, 0, 1, 2, session="s"),
        outcome("b", 2, 2, 3, 4, session="s"),
        outcome("c", 3, 3, 4, 5, session="s"),
        outcome("d", 3, 3, 4, 5, session="t"),
        outcome("e", 3, 3, 4, 5),
    )
    names = {e["tid"]: e["args"]["name"] for e in named(events, "thread_name")}
    tracks = [names[named(events, name)[0]["tid"]] for name in "abcde"]
    assert tracks == ["s", "s", "s (2)", "t", "no session"]


def test_an_arrow_comes_from_who_computed_the_blocks(tmp_path: Path) -> None:
    events = timeline(
        tmp_path / "t.json",
        outcome("a", 0, 0, 1, 2, blocks=(1, 2)),
        outcome("b", 3, 3, 4, 5, blocks=(3, 4)),
        outcome("c", 6, 6, 7, 8, blocks=(1, 2, 5), hit=2),
        outcome("d", 9, 9, 10, 11, blocks=(1, 2, 5), hit=3),
    )
    arrows = [(e["ph"], e["ts"] / 1e6) for e in events if e["ph"] in "sf"]
    assert arrows == [("s", 0), ("f", 6), ("s", 6), ("f", 9)]


def test_a_block_used_again_belongs_to_who_computed_it_last(tmp_path: Path) -> None:
    events = timeline(
        tmp_path / "t.json",
        outcome("a", 0, 0, 1, 2, blocks=(1,)),
        outcome("b", 3, 3, 4, 5, blocks=(1,)),
        outcome("c", 6, 6, 7, 8, blocks=(1,), hit=1),
    )
    assert [e["ts"] / 1e6 for e in events if e["ph"] == "s"] == [3]


def test_who_computed_may_end_after_who_hit(tmp_path: Path) -> None:
    events = timeline(
        tmp_path / "t.json",
        outcome("old", 0, 0, 0.1, 0.2, blocks=(1,)),
        outcome("hit", 3, 3, 4, 5, blocks=(1, 9), hit=1),
        outcome("long", 1, 1, 2, 50, blocks=(1,)),
    )
    assert [e["ts"] / 1e6 for e in events if e["ph"] == "s"] == [1]


def test_an_uncertain_arrow_is_not_drawn(tmp_path: Path) -> None:
    """Still being computed: the block might hold what was in it before."""
    events = timeline(
        tmp_path / "t.json",
        outcome("hit", 3, 3, 4, 5, blocks=(1, 9), hit=1),
        outcome("slow", 1, 1, 20, 50, blocks=(1,)),
    )
    assert not [e for e in events if e["ph"] in "sf"]


def test_blocks_of_lower_tiers_have_no_arrow(tmp_path: Path) -> None:
    tiers = {"device": 10, "disk": 10}
    events = timeline(
        tmp_path / "t.json",
        outcome("a", 0, 0, 1, 2, blocks=(1,)),
        outcome("b", 0, 0, 1, 2, blocks=(7,)),
        outcome("c", 6, 6, 7, 8, blocks=(1, 7), hit=2, cached_by_tier=tiers),
    )
    starts = [e for e in events if e["ph"] == "s"]
    assert [e["tid"] for e in starts] == [named(events, "a")[0]["tid"]]


def test_evictions_preemptions_and_the_pool(tmp_path: Path) -> None:
    events = timeline(
        tmp_path / "t.json",
        outcome("r", 0, 1, 2, 3, evicted_blocks=4, preemptions=2),
        points=[OccupancyPoint(0.5, 1, 2, 3)],
    )
    assert {e["name"] for e in events if e["ph"] == "i"} == {
        "4 blocks evicted",
        "preempted 2 times",
    }
    (counter,) = [e for e in events if e["ph"] == "C"]
    assert counter["ts"] == 5e5
    assert counter["args"] == {"held": 1, "cached": 2, "free": 3}


def test_names_from_the_trace_are_data(tmp_path: Path) -> None:
    name = '"]}\n{"ph": "Z"},\u2028\\'
    events = timeline(tmp_path / "t.json", outcome(name, 0, 1, 2, 3, session=name))
    assert named(events, name)


def test_a_bad_event_is_never_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvtool.report.timeline._instants", lambda *_: [{"ph": "i", "pid": 1}])
    with pytest.raises(TimelineError):
        timeline(tmp_path / "t.json", outcome("r", 0, 1, 2, 3))
    with pytest.raises(ValueError):
        timeline(tmp_path / "t.json", outcome("r", 0, 1, 2, 3, output_tokens=float("nan")))


@pytest.mark.parametrize("mode", ["serial", "arrival"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_of_a_replay(name: str, mode: str, tmp_path: Path) -> None:
    """Every request is there, and each that hit has its arrow."""
    path = tmp_path / "t.json"
    drawn = Timeline(path, Unit(1, 16))
    simulation = simulated(
        TRACES / f"{name}.jsonl",
        Listeners(on_served=drawn.add, block_ids=True),
        mode=mode,
        advice=False,
        engine=EngineConfig(kv_blocks=80),
    )
    assert simulation.serving is not None
    drawn.close(simulation.serving.occupancy)
    events = json.loads(path.read_text())["traceEvents"]
    requests = [e for e in events if e["ph"] == "X" and e["args"]]
    assert len(requests) == len(simulation.workload)
    whole_blocks = sum(e["args"]["hit_tokens"] >= 16 for e in requests)
    assert len([e for e in events if e["ph"] == "f"]) == whole_blocks


TIMES = st.lists(st.integers(0, 40), min_size=4, max_size=4).map(sorted)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rows=st.lists(
        st.tuples(
            TIMES,
            st.lists(st.integers(0, 4), max_size=4, unique=True),
            st.integers(0, 4),
            st.sampled_from([None, "s", "t"]),
        ),
        max_size=12,
    )
)
def test_any_outcomes_make_a_timeline_that_can_be_drawn(rows: list[Any], tmp_path: Path) -> None:
    """In any order, with moments that coincide; thirds of a second are no whole nanoseconds."""
    outcomes = [
        outcome(
            str(number),
            *(time / 3 for time in times),
            blocks=blocks,
            hit=min(hit, len(blocks)),
            session=session,
        )
        for number, (times, blocks, hit, session) in enumerate(rows)
    ]
    events = timeline(tmp_path / "t.json", *outcomes)
    assert check_timeline(events) == len(events)
