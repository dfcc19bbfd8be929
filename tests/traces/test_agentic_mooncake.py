"""Mooncake rows that wait for each other and for tools."""

from __future__ import annotations

from pathlib import Path

import pytest
from traces.files import blocks, opened, refused

from kvtool.traces.open_trace import open_trace


def test_waits_and_branches(tmp_path: Path) -> None:
    rows = [
        blocks(1, request_id="parent", branches=["child"], timestamp=100, prefix_reset=True),
        blocks(1, 2, request_id="child", timestamp=400, session_id="sub"),
        blocks(1, 3, request_id="join", wait_for=["parent", "child", "child"], timestamp=900)
        | {"delay": 250, "tool_wait_ms": 1250.5, "tool_events": [{"tool_class": "shell"}]},
    ]
    trace = opened(tmp_path, *rows, trace_block_size=512)
    assert trace.format.name == "agentic-mooncake"
    assert trace.why == "request_id and wait_for, branches, tool_wait_ms"
    parent, child, join = trace
    assert (parent.after, parent.arrival_s) == ((), 0.0)
    assert (child.after, child.arrival_s, child.session) == (("parent",), None, "sub")
    assert (join.after, join.arrival_s) == (("parent", "child"), None)
    assert join.delay_s == pytest.approx(1.5005)
    assert join.details["tool_events"] == [{"tool_class": "shell"}]
    assert parent.details["prefix_reset"] is True


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (blocks(1, wait_for=["a"]), "request_id is missing"),
        (blocks(1, request_id="b", wait_for="a"), "wait_for must be a list: it is 'a'"),
        (blocks(1, request_id="b", wait_for=[None]), "wait_for must be a list of ids"),
        (blocks(1, request_id="b", tool_wait_ms=-1), "tool_wait_ms must be a number from 0"),
    ],
)
def test_rows_that_are_wrong(row: dict[str, object], reason: str, tmp_path: Path) -> None:
    message = refused(tmp_path, blocks(1, request_id="a", wait_for=[]), row, trace_block_size=512)
    assert message.startswith("trace.jsonl:2: ")
    assert reason in message


def test_an_agentic_trace_is_iterated_as_written(tmp_path: Path) -> None:
    rows = [
        blocks(1, request_id="late", timestamp=900, wait_for=[]),
        blocks(1, request_id="early", timestamp=100),
        blocks(1, request_id="join", timestamp=0, wait_for=["early", "late"]),
    ]
    trace = opened(tmp_path, *rows, trace_block_size=512)
    assert [r.id for r in trace] == ["late", "early", "join"]
    assert open_trace([tmp_path / "trace.jsonl"], trace_block_size=512).timed is False
