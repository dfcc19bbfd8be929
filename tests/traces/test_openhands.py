"""OpenHands trajectories: events, answers with several calls, condensation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from traces.files import opened

from kvtool.errors import InputError
from kvtool.traces.open_trace import Trace, open_trace


def event(number: int, source: str, **fields: Any) -> dict[str, Any]:
    timestamp = f"2025-06-01T10:00:{number:02d}"
    return {"id": number, "timestamp": timestamp, "source": source, **fields}


def called(response: str, *call_ids: str, this: str) -> dict[str, Any]:
    calls = [
        {"id": c, "function": {"name": "run", "arguments": f'{{"n": "{c}"}}'}} for c in call_ids
    ]
    message = {"role": "assistant", "content": "I run.", "tool_calls": calls}
    usage = {"prompt_tokens": 30, "completion_tokens": 4}
    usage |= {"prompt_tokens_details": {"cached_tokens": 20}}
    model_response = {"id": response, "choices": [{"message": message}], "usage": usage}
    return {"tool_call_id": this, "function_name": "run", "model_response": model_response}


EVENTS = [
    event(0, "agent", action="system", args={"content": "S", "tools": [{"name": "run"}]}),
    event(1, "user", action="message", args={"content": "task"}),
    event(2, "agent", observation="agent_state_changed", content="", extras={}),
    event(3, "agent", action="run", args={}, tool_call_metadata=called("r1", "a", "b", this="a")),
    event(4, "agent", observation="run", content="A", tool_call_metadata={"tool_call_id": "a"}),
    event(5, "agent", action="run", args={}, tool_call_metadata=called("r1", "a", "b", this="b")),
    event(6, "agent", observation="run", content="B", tool_call_metadata={"tool_call_id": "b"}),
    event(9, "agent", action="message", args={"content": "done?"}),
    event(12, "user", action="message", args={"content": "yes"}),
    event(15, "agent", action="finish", args={"thought": "ok", "outputs": {}}),
]


def trace_of(folder: Path, events: list[Any]) -> Trace:
    path = folder / "run.json"
    path.write_text(json.dumps(events, indent=1))
    return open_trace([path])


def contents(request: Any) -> list[str]:
    return [f"{message['role']}: {message['content']}" for message in request.prompt.messages]


def test_each_answer_is_a_request_with_its_calls_once(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, EVENTS)
    assert trace.format.name == "openhands"
    first, second, third = trace
    assert contents(first) == ["system: S", "user: task"]
    assert contents(second) == [*contents(first), "assistant: I run.", "tool: A", "tool: B"]
    assert contents(third) == [*contents(second), "assistant: done?", "user: yes"]
    calls = second.prompt.messages[2]["tool_calls"]  # type: ignore[union-attr]
    assert [call["id"] for call in calls] == ["a", "b"]
    assert first.prompt.tools[0]["function"]["name"] == "run"  # type: ignore[union-attr]
    assert third.reply["tool_calls"][0]["function"]["name"] == "finish"  # type: ignore[index]
    assert first.recorded.prompt_tokens == 30 and first.recorded.cached_tokens == 20
    assert [r.arrival_s for r in trace] == [0, 5, 11]
    assert [r.after for r in trace] == [(), (first.id,), (second.id,)]
    assert third.delay_s == 3


def test_a_condensation_takes_events_out_of_the_prompt(tmp_path: Path) -> None:
    condensed = {"forgotten_event_ids": [3, 4, 6], "summary": "ran", "summary_offset": 2}
    rows = [*EVENTS[:8], event(10, "agent", action="condensation", args=condensed), *EVENTS[8:]]
    *_, last = trace_of(tmp_path, rows)
    assert contents(last) == [
        "system: S",
        "user: task",
        "user: ran",
        "assistant: done?",
        "user: yes",
    ]


def test_results_have_the_events_in_their_history(tmp_path: Path) -> None:
    settings = {"llm_config": {"model": "sonnet"}}
    rows = [{"instance_id": i, "history": EVENTS, "metadata": settings} for i in ("x", "y")]
    trace = opened(tmp_path, *rows)
    assert sorted(str(request.session) for request in trace) == ["x"] * 3 + ["y"] * 3
    assert {request.model for request in trace} == {"sonnet"}


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (event(20, "user", action="message", args=5), "args must be an object: it is 5"),
        ({**EVENTS[1], "timestamp": "?"}, "timestamp must be a time: it is '?'"),
        ({**EVENTS[1], "args": {"content": 5}}, "content must be text, null or a list of parts"),
    ],
)
def test_a_bad_event_is_refused_with_its_number(tmp_path: Path, broken: Any, reason: str) -> None:
    with pytest.raises(InputError) as error:
        trace_of(tmp_path, [*EVENTS, broken])
    assert error.value.message.startswith(f"run.json, record 11: {reason}")
