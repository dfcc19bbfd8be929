"""Sessions of Claude Code with hash ids: sub-agents, local ids, rests without an id."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from traces.files import Row, opened, refused, write_rows

from kvtool.traces.open_trace import Trace, open_trace
from kvtool.traces.trace_request import BlockPrompt


def request(t: float, *ids: int, tokens: int | None = None, **fields: Any) -> Row:
    length = 64 * len(ids) + 5 if tokens is None else tokens
    return {"t": t, "type": "n", "model": "big", "in": length, "out": 3, "hash_ids": list(ids)} | {
        "api_time": 2.0,
        "think_time": 1.0,
        **fields,
    }


def session(*requests: Row, **fields: Any) -> Row:
    return {"id": "s", "block_size": 64, "hash_id_scope": "local", "requests": list(requests)} | (
        fields
    )


def subagent(t: float, *requests: Row) -> Row:
    return {"t": t, "type": "subagent", "agent_id": "agent_1", "requests": list(requests)}


def test_a_session(tmp_path: Path) -> None:
    rows = [request(0, 1), request(10, 1, 2, ttft=0.5), request(11, 1, 3), request(12, 1, 2, 4)]
    trace = opened(tmp_path, session(*rows))
    assert trace.block_size == 64
    assert trace.why == "block_size and requests; hash ids are local"
    assert [r.id for r in trace] == ["s/1", "s/2", "s/3", "s/4"]
    assert [r.arrival_s for r in trace] == [0, 10, 11, 12]
    assert [r.after for r in trace] == [(), ("s/1",), ("s/1",), ("s/2",)]  # s/2 ends at 12
    second = list(trace)[1]
    assert second.prompt == BlockPrompt((1, 2), 133, 64)
    assert second.recorded.prompt_tokens == 133
    assert (second.recorded.ttft_s, second.recorded.duration_s) == (0.5, 2.0)
    assert (second.delay_s, second.model, second.session) == (1.0, "big", "s")


@pytest.mark.parametrize("absolute", [False, True])
def test_times_of_a_subagent_count_from_it_or_from_the_start(
    absolute: bool, tmp_path: Path
) -> None:
    start = 20 if absolute else 0
    inner = subagent(20, request(start, 7), request(start + 4, 7, 8))
    trace = opened(tmp_path, session(request(0, 1), inner, request(23, 1, 2), request(30, 1, 2, 3)))
    assert [(r.id, r.arrival_s, r.after) for r in trace] == [
        ("s/1", 0, ()),
        ("s/agent_1/1", 20, ("s/1",)),
        ("s/3", 23, ("s/1",)),
        ("s/agent_1/2", 24, ("s/agent_1/1",)),
        ("s/4", 30, ("s/agent_1/2",)),  # the agent waits for what it started
    ]
    assert {r.session for r in trace} == {"s", "s/agent_1"}


def test_a_subagent_in_a_subagent(tmp_path: Path) -> None:
    inner = subagent(5, request(0, 2), subagent(3, request(0, 3)))
    trace = opened(tmp_path, session(request(0, 1), inner))
    assert [(r.id, r.arrival_s) for r in trace] == [
        ("s/1", 0),
        ("s/agent_1/1", 5),
        ("s/agent_1/agent_1/1", 8),
    ]


def scopes(trace: Trace) -> list[str]:
    return [request.scope for request in trace]


def test_local_ids_belong_to_their_session(tmp_path: Path) -> None:
    rows = [session(request(0, 1)), session(request(0, 1))]
    assert scopes(opened(tmp_path, *rows)) == ["trace.jsonl:1", "trace.jsonl:2"]
    everywhere = [session(request(0, 1), hash_id_scope="global") for _ in range(2)]
    assert scopes(opened(tmp_path, *everywhere)) == ["", ""]
    paths = [write_rows(tmp_path / name, rows[:1]) for name in ("a.json", "b.json")]
    trace = open_trace(paths)
    assert scopes(trace) == ["a.json:1", "b.json:1"]
    assert [r.id for r in trace] == ["a.json:s/1", "b.json:s/1"]


def test_a_document_over_several_lines(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(session(request(0, 1)), indent=1))
    assert len(open_trace([path])) == 1


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (session(request(0, 1, tokens=200)), "need 4 ids, there are 1"),
        (session(request(0, 1), request(1, 1, tokens=0)), "in must be a whole number from 1"),
        (session(request(-1, 1)), "t must be a number from 0: it is -1 (request 1 of s)"),
        (session({**request(0, 1), "t": None}), "t is missing: request 1 of s"),
        (session("soon"), "a request must be an object: it is 'soon'"),  # type: ignore[arg-type]
        (session(subagent(3, request(0, 1), {"t": 1})), "in is missing: request 2 of s/agent_1"),
        ({**session(), "block_size": "64"}, "block_size must be a whole number from 1"),
    ],
)
def test_requests_that_are_wrong(bad: Row, reason: str, tmp_path: Path) -> None:
    message = refused(tmp_path, session(request(0, 1)), bad)
    assert message.startswith("trace.jsonl:2: ")
    assert reason in message


def test_lenient_skips_the_request_not_the_session(tmp_path: Path) -> None:
    bad = session(request(0, 1), {"t": 1}, request(5, 1, 2))
    trace = opened(tmp_path, bad, lenient=True)
    assert [r.id for r in trace] == ["s/1", "s/3"]
    assert trace.skipped == {"in is missing": 1}
