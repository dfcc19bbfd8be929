"""OpenInference spans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from traces.files import opened, refused

from kvtool.traces.trace_request import ChatPrompt

INPUT, OUTPUT = "llm.input_messages", "llm.output_messages"
ATTRIBUTES = {
    "openinference.span.kind": "LLM",
    "llm.model_name": "m",
    "session.id": "s",
    f"{INPUT}.0.message.role": "system",
    f"{INPUT}.0.message.content": "S",
    f"{INPUT}.1.message.role": "user",
    f"{INPUT}.1.message.contents.0.message_content.type": "text",
    f"{INPUT}.1.message.contents.0.message_content.text": "hi",
    f"{INPUT}.2.message.role": "assistant",
    f"{INPUT}.2.message.tool_calls.0.tool_call.id": "c",
    f"{INPUT}.2.message.tool_calls.0.tool_call.function.name": "f",
    f"{INPUT}.2.message.tool_calls.0.tool_call.function.arguments": "{}",
    f"{INPUT}.3.message.role": "tool",
    f"{INPUT}.3.message.tool_call_id": "c",
    f"{INPUT}.3.message.content": "seen",
    f"{OUTPUT}.0.message.role": "assistant",
    f"{OUTPUT}.0.message.content": "ho",
    "llm.tools.0.tool.json_schema": '{"type": "function", "function": {"name": "f"}}',
    "llm.token_count.prompt": 50,
    "llm.token_count.prompt_details.cache_read": 48,
    "llm.token_count.completion": 3,
}


def span(attributes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"context": {"span_id": "x", "trace_id": "t"}, "attributes": attributes, **fields}


def nested(attributes: dict[str, Any]) -> dict[str, Any]:
    """As Phoenix exports them: each part of a name is an object."""
    tree: dict[str, Any] = {}
    for name, value in attributes.items():
        *parents, leaf = name.split(".")
        inside = tree
        for parent in parents:
            inside = inside.setdefault(parent, {})
        inside[leaf] = value
    return tree


@pytest.mark.parametrize("written", [ATTRIBUTES, nested(ATTRIBUTES)], ids=["flat", "nested"])
def test_numbered_attributes_are_messages(tmp_path: Path, written: dict[str, Any]) -> None:
    trace = opened(tmp_path, span(written))
    assert trace.format.name == "openinference"
    (request,) = trace
    assert isinstance(request.prompt, ChatPrompt)
    function = {"name": "f", "arguments": "{}"}
    assert request.prompt.messages == (
        {"role": "system", "content": "S"},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c", "type": "function", "function": function}],
        },
        {"role": "tool", "content": "seen", "tool_call_id": "c"},
    )
    assert request.prompt.tools[0]["function"] == {"name": "f"}
    assert request.reply == {"role": "assistant", "content": "ho"}
    assert (request.recorded.prompt_tokens, request.recorded.cached_tokens) == (50, 48)
    assert (request.model, request.session, request.output_tokens) == ("m", "s", 3)


def test_other_kinds_of_spans_are_no_requests(tmp_path: Path) -> None:
    chain = span({**ATTRIBUTES, "openinference.span.kind": "CHAIN"})
    assert len(opened(tmp_path, chain, span(ATTRIBUTES))) == 1


def test_a_span_without_messages_is_refused(tmp_path: Path) -> None:
    bare = span({"openinference.span.kind": "LLM"})
    assert refused(tmp_path, span(ATTRIBUTES), bare).startswith(
        "trace.jsonl:2: a model call without its messages"
    )
