"""SWE-agent trajectories: histories, steps with their own prompts, demonstrations, agents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvtool.errors import InputError
from kvtool.traces.open_trace import Trace, open_trace


def said(role: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, "agent": "main", **fields}


CALL = {"id": "c1", "function": {"name": "ls", "arguments": "{}"}}
HISTORY = [
    said("system", "S", message_type="system_prompt"),
    said("user", [{"type": "text", "text": "task", "cache_control": {}}]),
    said("assistant", "one", tool_calls=[CALL], thought="t", action="ls"),
    said("tool", "a.txt", tool_call_ids=["c1"]),
    said("assistant", "two"),
    said("user", "observed"),
]
STEP = {"action": "ls", "observation": "a.txt", "response": "one", "execution_time": 0.5}


def trace_of(folder: Path, **fields: Any) -> Trace:
    path = folder / "run.traj"
    path.write_text(json.dumps(fields, indent=1))
    return open_trace([path])


def contents(request: Any) -> list[str]:
    return [message["content"] for message in request.prompt.messages]


def test_each_reply_of_the_history_is_a_request(tmp_path: Path) -> None:
    settings = json.dumps({"agent": {"model": {"name": "gpt-4o"}}})
    trace = trace_of(tmp_path, history=HISTORY, trajectory=[STEP, STEP], replay_config=settings)
    first, second = trace
    assert trace.format.name == "swe-agent"
    assert contents(first) == ["S", "task"]
    assert contents(second) == ["S", "task", "one", "a.txt"]
    assert second.prompt.messages[2]["tool_calls"][0]["id"] == "c1"  # type: ignore[union-attr]
    assert second.prompt.messages[3]["tool_call_id"] == "c1"  # type: ignore[union-attr]
    assert (first.session, first.model, first.id) == ("run", "gpt-4o", "run#1")
    assert (second.after, second.delay_s) == (("run#1",), 0.5)
    assert second.reply == {"role": "assistant", "content": "two"}
    assert any("plain history" in warning for warning in trace.warnings)


def test_a_history_without_a_trajectory_is_enough(tmp_path: Path) -> None:
    assert len(trace_of(tmp_path, history=HISTORY)) == 2


@pytest.mark.parametrize("name", ["query", "messages"])
def test_the_messages_of_a_step_are_its_prompt(tmp_path: Path, name: str) -> None:
    shortened = [*HISTORY[:3], said("tool", "Old output omitted", tool_call_ids=["c1"])]
    steps = [{**STEP, name: HISTORY[:2]}, {**STEP, name: shortened, "response": "two"}]
    first, second = trace_of(tmp_path, history=HISTORY, trajectory=steps)
    assert contents(second) == ["S", "task", "one", "Old output omitted"]
    assert (first.reply, second.reply) == ("one", "two")
    assert second.delay_s == 0.5


def test_a_demonstration_is_prompt_but_no_request(tmp_path: Path) -> None:
    shown = [said("user", "like this", is_demo=True), said("assistant", "so", is_demo=True)]
    first, second = trace_of(tmp_path, history=[HISTORY[0], *shown, *HISTORY[1:]])
    assert contents(first) == ["S", "like this", "so", "task"]
    assert len(contents(second)) == 6


def test_another_agent_has_a_session_and_a_prompt_of_its_own(tmp_path: Path) -> None:
    other = [said("user", "sub", agent="helper"), said("assistant", "ok", agent="helper")]
    trace = trace_of(tmp_path, history=[*HISTORY[:4], *other, *HISTORY[4:]])
    by_session = {(request.session, len(contents(request))) for request in trace}
    assert by_session == {("run", 2), ("run", 4), ("run/helper", 1)}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"history": [{"role": "system", "content": "S"}]}, "the conversation asks nothing"),
        ({"history": [*HISTORY, 5]}, "a message must be an object: it is 5"),
        ({"history": [*HISTORY, {"role": None}]}, "a message has no role"),
        ({"history": HISTORY, "trajectory": [5]}, "a step must be an object: it is 5"),
        ({"history": HISTORY, "trajectory": {}}, "trajectory must be a list: it is an object"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError) as error:
        trace_of(tmp_path, **fields)
    assert error.value.message.startswith(f"run.traj:1: {reason}")
