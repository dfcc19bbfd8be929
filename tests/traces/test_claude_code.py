"""Claude Code sessions: the tree, split messages, side-by-side tools, sub-agents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from traces.files import opened, refused

USAGE = {
    "input_tokens": 3,
    "cache_creation_input_tokens": 10,
    "cache_read_input_tokens": 100,
    "output_tokens": 7,
    "cache_creation": {"ephemeral_5m_input_tokens": 10},
}


def record(
    kind: str, uuid: str, parent: str | None, second: float, **fields: Any
) -> dict[str, Any]:
    return {
        "type": kind,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "s",
        "isSidechain": False,
        "timestamp": f"2026-06-01T05:40:{second:06.3f}Z",
        **fields,
    }


def user(uuid: str, parent: str | None, second: float, content: Any, **fields: Any) -> Any:
    message = {"role": "user", "content": content}
    return record("user", uuid, parent, second, message=message, **fields)


def answer(
    uuid: str, parent: str | None, second: float, message_id: str, *blocks: Any, **fields: Any
) -> Any:
    message = {"id": message_id, "model": "opus", "role": "assistant", "content": list(blocks)}
    return record("assistant", uuid, parent, second, message={**message, "usage": USAGE}, **fields)


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def use(call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"n": call_id}}


def result(call_id: str) -> list[dict[str, Any]]:
    return [{"type": "tool_result", "tool_use_id": call_id, "content": f"out {call_id}"}]


SESSION = [
    {"type": "mode", "mode": "normal", "sessionId": "s"},
    {"type": "file-history-snapshot", "messageId": "u1", "snapshot": {}},
    user("u1", None, 1, "do it"),
    record("attachment", "at", "u1", 1, attachment={"type": "skill_listing", "content": "no"}),
    answer("a1", "at", 2, "m1", {"type": "thinking", "thinking": "", "signature": "x"}),
    answer("a2", "a1", 3, "m1", text("I look.")),
    answer("a3", "a2", 4, "m1", use("x")),
    answer("a4", "a3", 5, "m1", use("y")),
    user("r1", "a3", 6, result("x")),
    user("r2", "a4", 8, result("y")),
    answer("b1", "r2", 10, "m2", text("Done.")),
    record("system", "sy", "b1", 10, subtype="turn_duration"),
    {"type": "ai-title", "aiTitle": "T", "sessionId": "s"},
    user("u2", "sy", 20, "more"),
    answer("c1", "u2", 21, "m3", text("Sure.")),
]


def contents(request: Any) -> list[str]:
    return [f"{message['role']}: {message['content']}" for message in request.prompt.messages]


def test_records_of_one_message_are_one_request(tmp_path: Path) -> None:
    trace = opened(tmp_path, *SESSION)
    assert trace.format.name == "claude-code"
    assert [request.id for request in trace] == ["m1", "m2", "m3"]
    assert [request.place.line for request in trace] == [5, 11, 15]
    assert {request.session for request in trace} == {"s"}
    assert any("system prompt" in warning for warning in trace.warnings)


def test_the_prompt_is_the_path_with_results_of_both_branches(tmp_path: Path) -> None:
    first, second, third = opened(tmp_path, *SESSION)
    assert contents(first) == ["user: do it"]
    assert contents(second) == [
        *contents(first),
        "assistant: I look.",
        "tool: out x",
        "tool: out y",
    ]
    assert contents(third) == [*contents(second), "assistant: Done.", "user: more"]
    calls = second.prompt.messages[1]["tool_calls"]  # type: ignore[union-attr]
    assert [call["id"] for call in calls] == ["x", "y"]
    assert first.reply == second.prompt.messages[1]  # type: ignore[union-attr]


def test_cached_tokens_lie_beside_the_input(tmp_path: Path) -> None:
    first, *_ = opened(tmp_path, *SESSION)
    assert (first.recorded.prompt_tokens, first.recorded.cached_tokens) == (113, 100)
    assert (first.output_tokens, first.model) == (7, "opus")
    assert first.details == {"ephemeral_5m_input_tokens": 10}


def test_a_request_is_sent_when_the_last_result_is_there(tmp_path: Path) -> None:
    first, second, third = opened(tmp_path, *SESSION)
    assert [r.arrival_s for r in (first, second, third)] == [0, 7, 19]
    assert [r.recorded.duration_s for r in (first, second, third)] == [4, 2, 1]
    assert [r.after for r in (first, second, third)] == [(), ("m1",), ("m2",)]
    assert [r.delay_s for r in (first, second, third)] == [0, 3, 10]


def test_a_sub_agent_is_a_session_of_its_own(tmp_path: Path) -> None:
    side = {"isSidechain": True}
    rows = [
        *SESSION,
        user("s1", None, 22, "find", **side),
        answer("s2", "s1", 23, "m4", text("Found."), **side),
        user("s3", None, 22, "named", **side, agentId="abc"),
        answer("s4", "s3", 23, "m5", text("Here."), **side, agentId="abc"),
    ]
    *_, plain, named = opened(tmp_path, *rows)
    assert (plain.session, named.session) == ("s/s1", "s/abc")
    assert contents(plain) == ["user: find"]
    assert (plain.after, named.after) == ((), ())


def test_a_branch_that_was_given_up_is_in_no_later_prompt(tmp_path: Path) -> None:
    rows = [*SESSION, user("u3", "b1", 30, "instead"), answer("d1", "u3", 31, "m4", text("Ok."))]
    *_, last = opened(tmp_path, *rows)
    assert contents(last)[-2:] == ["assistant: Done.", "user: instead"]
    assert last.after == ("m2",)


def test_a_compaction_starts_a_prompt_anew(tmp_path: Path) -> None:
    rows = [
        *SESSION,
        record("system", "cb", None, 40, subtype="compact_boundary", logicalParentUuid="c1"),
        user("cs", "cb", 41, "Summary: all done.", isCompactSummary=True),
        answer("e1", "cs", 42, "m4", text("Ok.")),
    ]
    *_, last = opened(tmp_path, *rows)
    assert contents(last) == ["user: Summary: all done."]


def test_what_the_client_said_itself_is_no_request(tmp_path: Path) -> None:
    failed = answer("f1", "c1", 30, "m4", text("API Error"), isApiErrorMessage=True)
    synthetic = answer("f2", "f1", 31, "m5", text("No response requested."))
    synthetic["message"]["model"] = "<synthetic>"
    rows = [*SESSION, failed, synthetic, user("u4", "f2", 32, "again")]
    *_, last = opened(tmp_path, *rows, answer("g1", "u4", 33, "m6", text("Ok.")))
    assert last.id == "m6"
    assert contents(last)[-3:] == [
        "assistant: Sure.",
        "assistant: No response requested.",
        "user: again",
    ]


def test_a_path_that_begins_in_another_file_is_said(tmp_path: Path) -> None:
    trace = opened(tmp_path, *SESSION[10:])
    assert [request.id for request in trace] == ["m3"]
    assert any("another file" in warning for warning in trace.warnings)


def test_parents_in_a_circle_end(tmp_path: Path) -> None:
    rows = [
        user("u1", "u2", 1, "a"),
        user("u2", "u1", 2, "b"),
        answer("a", "u2", 3, "m", text("c")),
    ]
    (request,) = opened(tmp_path, *rows)
    assert contents(request) == ["user: a", "user: b"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (user("u9", "c1", 30, 5), "message.content must be text or a list: it is 5"),
        (record("user", "u9", "c1", 30, message=None), "message must be an object: it is null"),
        (record("user", "u9", "c1", 30, message={}), "message.content must be text or a list"),
        (user("u9", "c1", 30, "x", timestamp="?"), "timestamp must be a time: it is '?'"),
        (answer("a9", None, 30, "m9", text("x")), "a reply without a prompt"),
    ],
)
def test_a_bad_record_is_refused_with_its_place(tmp_path: Path, row: Any, reason: str) -> None:
    assert refused(tmp_path, *SESSION, row).startswith(f"trace.jsonl:16: {reason}")
    trace = opened(tmp_path, *SESSION, row, lenient=True)
    assert (len(trace), sum(trace.skipped.values())) == (3, 1)
