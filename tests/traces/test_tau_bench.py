"""Trajectories of tau-bench and results of tau2-bench."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvtool.errors import InputError
from kvtool.traces.open_trace import Trace, open_trace

CALL = {"id": "c", "type": "function", "function": {"name": "find", "arguments": "{}"}}
TRAJ = [
    {"role": "system", "content": "policy"},
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": None, "tool_calls": [CALL], "function_call": None},
    {"role": "tool", "tool_call_id": "c", "name": "find", "content": "found"},
    {"role": "assistant", "content": "here"},
    {"role": "user", "content": "###STOP###"},
]


def trace_of(folder: Path, document: Any) -> Trace:
    path = folder / "runs.json"
    path.write_text(json.dumps(document))
    return open_trace([path])


def contents(request: Any) -> list[str]:
    return [message["content"] for message in request.prompt.messages]


def test_each_reply_of_a_trajectory_is_a_request(tmp_path: Path) -> None:
    runs = [{"task_id": 3, "trial": t, "reward": 0.0, "info": {}, "traj": TRAJ} for t in (0, 1)]
    trace = trace_of(tmp_path, runs)
    assert trace.format.name == "tau-bench"
    assert [request.session for request in trace] == ["task-3-trial-0"] * 2 + ["task-3-trial-1"] * 2
    first, second, third, _ = trace
    assert contents(first) == ["policy", "hi"]
    assert contents(second) == ["policy", "hi", "", "found"]
    assert second.prompt.messages[2]["tool_calls"] == [CALL]  # type: ignore[union-attr]
    assert (second.after, third.after) == ((first.id,), ())


def test_a_bad_trajectory_is_refused_with_its_number(tmp_path: Path) -> None:
    runs = [{"task_id": 0, "traj": TRAJ}, {"task_id": 1, "traj": [{"content": "x"}]}]
    with pytest.raises(InputError, match=r"runs\.json, record 2: a message has no role"):
        trace_of(tmp_path, runs)


def timed(turn: int, role: str, content: str | None, **fields: Any) -> dict[str, Any]:
    timestamp = f"2025-06-01T10:00:{turn:02d}.5"
    return {"role": role, "content": content, "turn_idx": turn, "timestamp": timestamp, **fields}


def tau2(*messages: Any) -> dict[str, Any]:
    info = {"agent_info": {"llm": "gpt-4.1"}, "environment_info": {"policy": "policy"}}
    return {"info": info, "tasks": [], "simulations": [{"id": "s1", "messages": list(messages)}]}


def test_only_what_the_agent_hears_is_in_its_prompts(tmp_path: Path) -> None:
    agents_call = {"id": "a", "name": "find", "arguments": {"x": 1}, "requestor": "assistant"}
    users_call = {"id": "u", "name": "reboot", "arguments": {}, "requestor": "user"}
    result = timed(4, "tool", "r1", id="a", requestor="assistant")
    document = tau2(
        timed(0, "assistant", "hello"),
        timed(1, "user", "broken"),
        timed(2, "user", None, tool_calls=[users_call]),
        timed(2, "tool", "rebooted", id="u", requestor="user"),
        timed(3, "assistant", None, tool_calls=[agents_call], usage={"prompt_tokens": 9}),
        {"role": "tool", "tool_messages": [result, {**result, "content": "r2"}]},
        timed(9, "assistant", "bye"),
    )
    trace = trace_of(tmp_path, document)
    assert trace.format.name == "tau2"
    greeting, first, second = trace
    assert contents(greeting) == ["policy"]
    assert contents(first) == ["policy", "hello", "broken"]
    assert contents(second) == ["policy", "hello", "broken", "", "r1", "r2"]
    call = second.prompt.messages[3]["tool_calls"][0]  # type: ignore[union-attr]
    assert call["function"] == {"name": "find", "arguments": '{"x": 1}'}
    assert (first.model, first.session, first.recorded.prompt_tokens) == ("gpt-4.1", "s1", 9)
    assert (first.recorded.duration_s, second.recorded.duration_s) == (2, 5)


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"simulations": [5]}, "a simulation must be an object: it is 5"),
        ({"simulations": [{"messages": [5]}]}, "a message must be an object: it is 5"),
        ({"simulations": [{"messages": {}}]}, "messages must be a list: it is an object"),
        ({"simulations": [{"messages": []}]}, "the conversation asks nothing"),
    ],
)
def test_bad_results_are_refused(tmp_path: Path, document: Any, reason: str) -> None:
    with pytest.raises(InputError) as error:
        trace_of(tmp_path, document)
    assert error.value.message.startswith(f"runs.json:1: {reason}")
