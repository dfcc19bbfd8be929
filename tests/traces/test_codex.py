"""Codex rollouts: where responses begin and end, cumulative counts, forks, compaction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from traces.files import opened, refused


def record(kind: str, second: float, **payload: Any) -> dict[str, Any]:
    timestamp = f"2026-03-21T10:05:{second:06.3f}Z"
    return {"timestamp": timestamp, "type": kind, "payload": payload}


def meta(second: float = 0, session: str = "s", **fields: Any) -> dict[str, Any]:
    text = {"text": "You are Codex."}
    return record("session_meta", second, id=session, base_instructions=text, **fields)


def said(second: float, role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    parts = [{"type": kind, "text": text}]
    return record("response_item", second, type="message", role=role, content=parts)


def call(second: float, call_id: str) -> dict[str, Any]:
    fields = {"name": "sh", "arguments": '{"cmd": "ls"}', "call_id": call_id}
    return record("response_item", second, type="function_call", **fields)


def output(second: float, call_id: str) -> dict[str, Any]:
    fields = {"call_id": call_id, "output": f"out {call_id}"}
    return record("response_item", second, type="function_call_output", **fields)


def count(second: float, *totals: int, last: tuple[int, int, int]) -> dict[str, Any]:
    names = ("input_tokens", "cached_input_tokens", "output_tokens")
    info = {
        "total_token_usage": dict(zip(names, totals)),
        "last_token_usage": dict(zip(names, last)),
    }
    return record("event_msg", second, type="token_count", info=info)


ROLLOUT = [
    meta(),
    record("event_msg", 0, type="task_started", turn_id="t"),
    record("turn_context", 0, model="gpt-5"),
    said(1, "developer", "Be careful."),
    said(1, "user", "look"),
    record("response_item", 3, type="reasoning", summary=[], encrypted_content="x"),
    said(4, "assistant", "I look."),
    call(4, "1"),
    call(5, "2"),
    count(5, 50, 0, 9, last=(50, 0, 9)),
    output(6, "1"),
    output(7, "2"),
    count(7, 50, 0, 9, last=(50, 0, 9)),
    said(9, "assistant", "Done."),
    count(9, 120, 48, 12, last=(70, 48, 3)),
    record("turn_context", 20, model="gpt-5-mini"),
    said(20, "user", "more"),
    said(22, "assistant", "Sure."),
]


def contents(request: Any) -> list[str]:
    return [f"{message['role']}: {message['content']}" for message in request.prompt.messages]


def test_each_response_is_a_request(tmp_path: Path) -> None:
    trace = opened(tmp_path, *ROLLOUT)
    assert trace.format.name == "codex"
    first, second, third = trace
    assert contents(first) == ["system: You are Codex.", "developer: Be careful.", "user: look"]
    assert contents(second) == [
        *contents(first),
        "assistant: I look.",
        "tool: out 1",
        "tool: out 2",
    ]
    assert contents(third) == [*contents(second), "assistant: Done.", "user: more"]
    assert first.reply == second.prompt.messages[3]  # type: ignore[union-attr]
    calls = second.prompt.messages[3]["tool_calls"]  # type: ignore[union-attr]
    assert [written["id"] for written in calls] == ["1", "2"]
    assert [r.model for r in trace] == ["gpt-5", "gpt-5", "gpt-5-mini"]
    assert {r.session for r in trace} == {"s"}


def test_counts_of_a_response_are_not_the_cumulative_ones(tmp_path: Path) -> None:
    recorded = [request.recorded for request in opened(tmp_path, *ROLLOUT)]
    assert [r.prompt_tokens for r in recorded] == [50, 70, None]
    assert [r.cached_tokens for r in recorded] == [0, 48, None]
    assert [r.output_tokens for r in opened(tmp_path, *ROLLOUT)] == [9, 3, None]


def test_times(tmp_path: Path) -> None:
    requests = list(opened(tmp_path, *ROLLOUT))
    assert [r.arrival_s for r in requests] == [0, 6, 19]
    assert [r.recorded.duration_s for r in requests] == [4, 2, 2]
    assert [r.after for r in requests] == [(), ("s#1",), ("s#2",)]
    assert [r.delay_s for r in requests] == [0, 2, 11]


def test_the_history_that_a_fork_repeats_is_prompt_only(tmp_path: Path) -> None:
    repeated = [{**row, "timestamp": "2026-03-21T10:05:30.1Z"} for row in ROLLOUT]
    rows = [
        meta(30, "child", forked_from_id="s"),
        *repeated,
        said(31, "user", "aside"),
        said(35, "assistant", "Yes."),
    ]
    (request,) = opened(tmp_path, *rows)
    assert request.session == "child"
    assert contents(request)[-3:] == ["user: more", "assistant: Sure.", "user: aside"]


def test_a_second_meta_of_another_session_shows_a_fork_too(tmp_path: Path) -> None:
    repeated = [{**row, "timestamp": "2026-03-21T10:05:30.1Z"} for row in ROLLOUT]
    rows = [meta(30, "child"), *repeated, said(31, "user", "q"), said(35, "assistant", "a")]
    assert [request.session for request in opened(tmp_path, *rows)] == ["child"]


def test_a_compaction_replaces_the_history(tmp_path: Path) -> None:
    kept = [{"type": "message", "role": "user", "content": "kept"}]
    rows = [
        *ROLLOUT,
        record("compacted", 40, message="summary", replacement_history=kept),
        said(41, "user", "on"),
        said(42, "assistant", "Ok."),
        record("compacted", 50, message="summary"),
        said(51, "user", "and on"),
        said(52, "assistant", "Ok."),
    ]
    *_, fourth, fifth = opened(tmp_path, *rows)
    assert contents(fourth) == ["system: You are Codex.", "user: kept", "user: on"]
    assert contents(fifth) == [*contents(fourth), "user: summary", "user: and on"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"type": "response_item", "payload": 5}, "payload must be an object: it is 5"),
        (said(30, "user", "x") | {"timestamp": "?"}, "timestamp must be a time: it is '?'"),
        (record("response_item", 30, type="message", role=None), "a message has no role"),
        (count(30, 500, last=(-1, 0, 0)), "input_tokens must be a whole number from 0"),
    ],
)
def test_a_bad_record_is_refused_with_its_place(tmp_path: Path, row: Any, reason: str) -> None:
    assert refused(tmp_path, *ROLLOUT, row).startswith(f"trace.jsonl:19: {reason}")
    assert len(opened(tmp_path, *ROLLOUT, row, lenient=True)) == 3
