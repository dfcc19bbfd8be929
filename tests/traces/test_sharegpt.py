"""Whole conversations: ShareGPT, vLLM's multi-turn files, messages that end in a reply."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from traces.files import opened, refused

from kvtool.errors import InputError
from kvtool.traces.open_trace import open_trace


def turn(who: str, text: Any) -> dict[str, Any]:
    return {"from": who, "value": text}


def contents(request: Any) -> list[str]:
    return [f"{message['role']}: {message['content']}" for message in request.prompt.messages]


def test_each_turn_carries_all_before_it(tmp_path: Path) -> None:
    turns = [turn("human", "a"), turn("gpt", "b"), turn("human", "c")]
    trace = opened(tmp_path, {"id": "x", "system": "S", "conversations": turns})
    assert trace.format.name == "sharegpt"
    first, second = trace
    assert contents(first) == ["system: S", "user: a"]
    assert contents(second) == ["system: S", "user: a", "assistant: b", "user: c"]
    assert (first.reply, second.reply) == ({"role": "assistant", "content": "b"}, None)
    assert (second.session, second.after) == ("x", (first.id,))


def test_calls_of_tools_are_calls(tmp_path: Path) -> None:
    turns = [
        turn("human", "a"),
        turn("function_call", '{"name": "f", "arguments": {"k": 1}}'),
        turn("observation", "seen"),
        turn("gpt", "b"),
    ]
    tools = json.dumps([{"name": "f", "parameters": {}}])
    _, request = opened(tmp_path, {"conversations": turns, "tools": tools})
    _, call, result = request.prompt.messages  # type: ignore[union-attr]
    assert call["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"k": 1}'}
    assert result == {"role": "tool", "content": "seen"}
    assert request.prompt.tools[0]["function"]["name"] == "f"  # type: ignore[union-attr]


def test_a_file_of_vllms_multi_turn_benchmark(tmp_path: Path) -> None:
    messages = [{"role": role, "content": role} for role in ("user", "assistant") * 2]
    path = tmp_path / "turns.json"
    path.write_text(json.dumps([{"id": "a", "messages": messages}] * 2))
    trace = open_trace([path])
    assert trace.format.name == "sharegpt"
    assert [len(contents(request)) for request in trace] == [1, 3, 1, 3]


def test_a_conversation_whose_first_word_is_the_models_asks_later(tmp_path: Path) -> None:
    turns = [turn("gpt", "hi"), turn("human", "a"), turn("gpt", "b")]
    (request,) = opened(tmp_path, {"conversations": turns})
    assert contents(request) == ["assistant: hi", "user: a"]


def test_settings_of_a_generator_are_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"filetype": "generate_conversations", "num_conversations": 3}))
    with pytest.raises(InputError, match="settings of vLLM's generator"):
        open_trace([path])


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"conversations": []}, "the conversation asks nothing"),
        ({"conversations": [turn("gpt", "b")]}, "the conversation asks nothing"),
        ({"conversations": [5]}, "a turn of conversations must be an object with from"),
        (
            {"conversations": [{"value": "x"}]},
            "a turn of conversations must be an object with from",
        ),
        ({"conversations": [turn("human", 5)]}, "content must be text, null or a list of parts"),
        ({"conversations": "x"}, "conversations must be a list: it is 'x'"),
        ({"id": "x"}, "messages must be a list: it is null"),
    ],
)
def test_a_bad_conversation_is_refused(tmp_path: Path, row: dict[str, Any], reason: str) -> None:
    good = {"conversations": [turn("human", "a"), turn("gpt", "b")]}
    assert refused(tmp_path, good, row).startswith(f"trace.jsonl:2: {reason}")
    assert len(opened(tmp_path, good, row, lenient=True)) == 1
