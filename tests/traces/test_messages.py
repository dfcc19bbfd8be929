"""Messages of every API in one form; tool calls are never lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.traces.messages import messages_of
from kvtool.traces.responses_items import messages_of_items
from kvtool.traces.tool_calls import tools_of


def call(name: str, arguments: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **fields}


def test_parts_of_every_api_are_joined() -> None:
    parts = [
        {"type": "text", "text": "a"},
        {"type": "input_text", "text": "b"},
        {"type": "output_text", "text": "c"},
        {"type": "refusal", "refusal": "d"},
        "e",
    ]
    assert messages_of([{"role": "user", "content": parts}]) == (
        {"role": "user", "content": "abcde"},
    )


def test_blocks_of_anthropic_become_calls_results_and_thinking() -> None:
    messages = messages_of(
        [
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "x"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "ü"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "go on"},
                    {"type": "tool_result", "tool_use_id": "t1", "content": [{"text": "a.txt"}]},
                ],
            },
        ]
    )
    assert messages == (
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [call("ls", '{"path": "ü"}', id="t1")],
            "reasoning_content": "hm",
        },
        {"role": "tool", "content": "a.txt", "tool_call_id": "t1"},
        {"role": "user", "content": "go on"},
    )


def test_the_old_form_of_a_function_call_is_a_tool_call() -> None:
    (message, result) = messages_of(
        [
            {
                "role": "assistant",
                "content": None,
                "function_call": {"name": "f", "arguments": "{}"},
            },
            {"role": "function", "name": "f", "content": "1"},
        ]
    )
    assert message["tool_calls"] == [call("f", "{}")]
    assert result == {"role": "tool", "content": "1", "name": "f"}


@pytest.mark.parametrize(
    "written",
    [
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}},
        {"id": "c", "name": "f", "arguments": {"a": 1}},
        {"id": "c", "name": "f", "args": {"a": 1}},
        {"id": "c", "type": "custom", "custom": {"name": "f", "input": '{"a": 1}'}},
    ],
)
def test_a_call_has_one_form(written: dict[str, Any]) -> None:
    (message,) = messages_of([{"role": "assistant", "tool_calls": [written]}])
    assert message["tool_calls"] == [call("f", '{"a": 1}', id="c")]


@pytest.mark.report("S09")
def test_schemas_keep_the_order_of_tools_and_of_keys() -> None:
    one = {"type": "function", "function": {"name": "b", "parameters": {"z": 1, "a": 2}}}
    anthropic = {"name": "a", "description": "d", "input_schema": {"type": "object"}}
    written = tools_of([one, anthropic])
    assert json.dumps(written[0]) == json.dumps(one)
    assert json.dumps(written[1]["function"]) == json.dumps(
        {"name": "a", "description": "d", "parameters": {"type": "object"}}
    )


def test_items_of_one_response_are_one_message() -> None:
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "q"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]},
        {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "1"},
        {"type": "custom_tool_call", "name": "g", "input": "raw", "call_id": "2"},
        {"type": "function_call_output", "call_id": "1", "output": "done"},
        {"type": "custom_tool_call_output", "call_id": "2", "output": {"content": "too"}},
        {"type": "web_search_call", "action": {"query": "w"}},
    ]
    assert messages_of_items(items) == (
        {"role": "user", "content": "q"},
        {
            "role": "assistant",
            "content": "x",
            "tool_calls": [call("f", "{}", id="1"), call("g", "raw", id="2")],
            "reasoning_content": "hm",
        },
        {"role": "tool", "content": "done", "tool_call_id": "1"},
        {"role": "tool", "content": "too", "tool_call_id": "2"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [call("web_search", '{"query": "w"}')],
        },
    )


_texts = st.text(max_size=8)
_calls = st.lists(st.tuples(_texts, st.dictionaries(_texts, _texts, max_size=2)), max_size=3)


@given(st.lists(st.tuples(st.sampled_from(["openai", "anthropic", "items"]), _calls), max_size=4))
def test_every_call_of_every_form_survives(turns: list[tuple[str, list[Any]]]) -> None:
    names: list[str] = []
    seen: list[str] = []
    for form, calls in turns:
        names += [name for name, _ in calls]
        if form == "openai":
            written = [{"function": {"name": n, "arguments": a}} for n, a in calls]
            messages = messages_of([{"role": "assistant", "content": "", "tool_calls": written}])
        elif form == "anthropic":
            blocks = [{"type": "tool_use", "name": n, "input": a} for n, a in calls]
            messages = messages_of([{"role": "assistant", "content": blocks}])
        else:
            items = [
                {"type": "function_call", "name": n, "arguments": json.dumps(a)} for n, a in calls
            ]
            messages = messages_of_items(items)
        seen += [c["function"]["name"] for m in messages for c in m.get("tool_calls", ())]
    assert seen == names
