"""GenAI spans of OpenTelemetry: OTLP and printed spans, every spelling of messages and counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from traces.files import opened, refused

from kvtool.traces.open_trace import open_trace
from kvtool.traces.trace_request import ChatPrompt

USER = {"role": "user", "content": "hi"}
SYSTEM = {"role": "system", "content": "S"}
PARTS = [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]


def otlp_value(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"arrayValue": {"values": [otlp_value(inner) for inner in value]}}
    if isinstance(value, dict):
        pairs = [{"key": k, "value": otlp_value(v)} for k, v in value.items()]
        return {"kvlistValue": {"values": pairs}}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def otlp_span(attributes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    span = {
        "traceId": "t",
        "spanId": "s",
        "startTimeUnixNano": "1760997623000000000",
        "endTimeUnixNano": "1760997625500000000",
        "attributes": [{"key": k, "value": otlp_value(v)} for k, v in attributes.items()],
    }
    return {**span, **fields}


def document(*spans: dict[str, Any]) -> dict[str, Any]:
    return {
        "resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": list(spans)}]}]
    }


def printed(attributes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "name": "chat m",
        "context": {"trace_id": "0xt", "span_id": "0xs"},
        "start_time": "2025-10-20T22:00:23.000000Z",
        "end_time": "2025-10-20T22:00:25.500000Z",
        "attributes": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", **attributes},
        **fields,
    }


def test_a_document_of_otlp(tmp_path: Path) -> None:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.conversation.id": "c",
        "gen_ai.input.messages": json.dumps(PARTS),
        "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "S"}]),
        "gen_ai.tool.definitions": json.dumps([{"type": "function", "name": "f"}]),
        "gen_ai.output.messages": json.dumps(
            [{"role": "assistant", "parts": [{"type": "text", "content": "ho"}]}]
        ),
        "gen_ai.usage.input_tokens": 40,
        "gen_ai.usage.cache_read.input_tokens": 30,
        "gen_ai.usage.output_tokens": 2,
    }
    path = tmp_path / "spans.json"
    path.write_text(json.dumps(document(otlp_span(attributes)), indent=1))
    trace = open_trace([path])
    (request,) = trace
    assert trace.format.name == "otel"
    assert isinstance(request.prompt, ChatPrompt)
    assert request.prompt.messages == (SYSTEM, USER)
    assert request.prompt.tools[0]["function"]["name"] == "f"
    assert request.reply == {"role": "assistant", "content": "ho"}
    assert (request.id, request.session, request.model) == ("s", "c", "m")
    assert (request.recorded.prompt_tokens, request.recorded.cached_tokens) == (40, 30)
    assert (request.output_tokens, request.recorded.duration_s) == (2, 2.5)


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.input.messages": json.dumps(PARTS)},
        {"gen_ai.input.messages": PARTS},
        {"gen_ai.input.messages": json.dumps([USER])},
        {"gen_ai.prompt": json.dumps([USER])},
        {"gen_ai.prompt": "hi"},
        {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "hi"},
        {"gen_ai.prompt": {"0": {"role": "user", "content": "hi"}}},
    ],
)
def test_spellings_of_the_messages(tmp_path: Path, attributes: dict[str, Any]) -> None:
    (request,) = opened(tmp_path, printed(attributes))
    assert request.prompt == ChatPrompt((USER,))


@pytest.mark.parametrize(
    "events",
    [
        [
            {"name": "gen_ai.system.message", "attributes": {"content": "S"}},
            {"name": "gen_ai.user.message", "attributes": {"content": "hi", "role": "user"}},
            {"name": "gen_ai.choice", "attributes": {"message": {"content": "ho"}}},
        ],
        [
            {"name": "gen_ai.content.prompt", "attributes": {"gen_ai.prompt": [SYSTEM, USER]}},
            {"name": "gen_ai.content.completion", "attributes": {"gen_ai.completion": "ho"}},
        ],
    ],
)
def test_messages_may_be_events(tmp_path: Path, events: list[Any]) -> None:
    (request,) = opened(tmp_path, printed({}, events=events))
    assert request.prompt == ChatPrompt((SYSTEM, USER))
    assert request.reply == {"role": "assistant", "content": "ho"}


def test_more_than_nine_numbered_messages_keep_their_order(tmp_path: Path) -> None:
    attributes: dict[str, Any] = {}
    for n in (*range(11, -1, -1),):
        attributes |= {f"gen_ai.prompt.{n}.role": "user", f"gen_ai.prompt.{n}.content": str(n)}
    (request,) = opened(tmp_path, printed(attributes))
    assert isinstance(request.prompt, ChatPrompt)
    assert [m["content"] for m in request.prompt.messages] == [str(n) for n in range(12)]


@pytest.mark.report("S60")
def test_calls_and_results_in_parts_are_kept(tmp_path: Path) -> None:
    call = {"type": "tool_call", "id": "c", "name": "f", "arguments": {"a": 1}}
    result = {"type": "tool_call_response", "id": "c", "response": {"b": 2}}
    messages = [*PARTS, {"role": "assistant", "parts": [call]}, {"role": "tool", "parts": [result]}]
    (request,) = opened(tmp_path, printed({"gen_ai.input.messages": messages}))
    assert isinstance(request.prompt, ChatPrompt)
    _, called, answered = request.prompt.messages
    assert called["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"a": 1}'}
    assert answered == {"role": "tool", "content": '{"b": 2}', "tool_call_id": "c"}


@pytest.mark.parametrize(
    "name",
    [
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_read_input_tokens",
        "gen_ai.usage.input_tokens.cached",
    ],
)
@pytest.mark.parametrize(("cached", "prompt"), [(30, 40), (90, 130)])
def test_spellings_of_the_cached_tokens(
    tmp_path: Path, name: str, cached: int, prompt: int
) -> None:
    counts = {"gen_ai.usage.input_tokens": 40, name: cached}
    (request,) = opened(tmp_path, printed({"gen_ai.prompt": "hi", **counts}))
    assert request.recorded.cached_tokens == cached
    assert request.recorded.prompt_tokens == prompt


def test_spans_of_agents_and_tools_are_no_requests(tmp_path: Path) -> None:
    agent = printed({"gen_ai.operation.name": "invoke_agent", "gen_ai.prompt": "hi"})
    other = {"name": "GET /", "attributes": {"http.method": "GET"}}
    assert len(opened(tmp_path, agent, other, printed({"gen_ai.prompt": "hi"}))) == 1


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (printed({}), "a model call without its messages"),
        (printed({"gen_ai.prompt": 5}), "messages must be a list: it is 5"),
        (printed({"gen_ai.prompt": "x"}, start_time="?"), "startTimeUnixNano must be a time"),
        (document(5), "spans must be a list of objects"),  # type: ignore[arg-type]
    ],
)
def test_a_bad_span_is_refused(tmp_path: Path, row: Any, reason: str) -> None:
    good = printed({"gen_ai.prompt": "hi"})
    assert refused(tmp_path, good, row).startswith(f"trace.jsonl:2: {reason}")
    assert len(opened(tmp_path, good, row, lenient=True)) == 1
