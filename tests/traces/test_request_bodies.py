"""Bodies of requests to the completions and responses APIs, and what is said of other logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvtool.errors import InputError
from kvtool.traces.open_trace import open_trace
from kvtool.traces.trace_request import ChatPrompt, TextPrompt

COMPLETION = {"model": "m", "prompt": "Say hi.", "response": {"choices": [{"text": "hi"}]}}
RESPONSES = {
    "model": "m",
    "instructions": "Be brief.",
    "input": [{"role": "user", "content": [{"type": "input_text", "text": "hello"}]}],
    "response": {"output": [{"type": "message", "role": "assistant", "content": "hi"}]},
}


def written(path: Path, *rows: Any) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def nested(row: dict[str, Any]) -> dict[str, Any]:
    body = {name: value for name, value in row.items() if name != "response"}
    return {"request": body, "response": row["response"]}


@pytest.mark.parametrize("row", [COMPLETION, nested(COMPLETION)])
def test_completions(tmp_path: Path, row: dict[str, Any]) -> None:
    trace = open_trace([written(tmp_path / "t.jsonl", row)])
    (request,) = trace
    assert (trace.format.name, trace.why) == ("openai", "model and prompt: completion requests")
    assert (request.prompt, request.reply) == (TextPrompt("Say hi."), "hi")


@pytest.mark.parametrize("row", [RESPONSES, nested(RESPONSES), RESPONSES | {"input": "hello"}])
def test_responses(tmp_path: Path, row: dict[str, Any]) -> None:
    trace = open_trace([written(tmp_path / "t.jsonl", row)])
    (request,) = trace
    assert trace.format.name == "openai" and "responses API" in trace.why
    assert isinstance(request.prompt, ChatPrompt)
    assert [(m["role"], m["content"]) for m in request.prompt.messages] == [
        ("system", "Be brief."),
        ("user", "hello"),
    ]
    assert request.reply is not None


def refusal(path: Path) -> InputError:
    with pytest.raises(InputError) as refused:
        open_trace([path])
    return refused.value


def test_other_logs_are_told_what_would_do(tmp_path: Path) -> None:
    langsmith = {"run_type": "llm", "inputs": {"messages": []}, "outputs": {}, "name": "x"}
    error = refusal(written(tmp_path / "t.jsonl", langsmith))
    assert "its first record has inputs, name, outputs, run_type" in error.message
    assert error.hint is not None and '{"messages": [...]}' in error.hint
    assert "one of: agentic-mooncake, bailian" in error.hint


def test_another_encoding_is_told_how_to_leave(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"messages": [{"role": "user", "content": "\xe9"}]}\n')
    assert "iconv" in (refusal(path).hint or "")


EMPTY = {"id": "b", "conversations": []}
TALK = {
    "id": "a",
    "conversations": [{"from": "human", "value": "x"}, {"from": "gpt", "value": "y"}],
}


def test_an_element_of_a_list_is_a_record_not_a_line(tmp_path: Path) -> None:
    path = tmp_path / "sharegpt.json"
    path.write_text(json.dumps([TALK, EMPTY, TALK]))
    assert refusal(path).message.startswith(
        "sharegpt.json, record 2: the conversation asks nothing"
    )


def test_lenient_names_the_first_places(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", TALK, *[EMPTY] * 5)
    trace = open_trace([path], lenient=True)
    (reason,) = trace.skipped
    assert trace.skipped[reason] == 5
    assert list(map(str, trace.skipped_places[reason])) == ["t.jsonl:2", "t.jsonl:3", "t.jsonl:4"]


TURNS = [{"role": r, "content": "text"} for r in ("user", "assistant", "user")]


@pytest.mark.parametrize(
    ("row", "is_told"),
    [
        ({"messages": TURNS}, True),
        ({"messages": TURNS[:1]}, False),
        ({"messages": TURNS, "session_id": "s"}, False),
        ({"messages": TURNS, "user": "u"}, False),
        ({"messages": TURNS, "metadata": {"thread_id": "t"}}, False),
        ({"messages": TURNS, "prompt_cache_key": "k"}, False),
    ],
)
def test_turns_without_a_session_are_warned_of(
    tmp_path: Path, row: dict[str, Any], is_told: bool
) -> None:
    trace = open_trace([written(tmp_path / "t.jsonl", row, row)])
    told = [warning for warning in trace.warnings if "none names its session" in warning]
    assert len(told) == is_told
    assert not told or told[0].startswith("2 of 2 requests go on with a conversation")
