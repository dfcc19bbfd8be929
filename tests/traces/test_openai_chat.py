"""Logs of chat requests: bodies, envelopes, Batch files, usage, turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from traces.files import opened, refused

from kvtool.traces.trace_request import ChatPrompt, TextPrompt

SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "hi"}
ANSWER = {"role": "assistant", "content": "hello"}
CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}


def body(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages), **fields}


def messages_in(folder: Path, *rows: Any) -> list[tuple[Any, ...]]:
    prompts = [request.prompt for request in opened(folder, *rows)]
    return [prompt.messages for prompt in prompts if isinstance(prompt, ChatPrompt)]


def test_a_bare_body_is_a_request(tmp_path: Path) -> None:
    trace = opened(tmp_path, body(SYSTEM, USER, tools=[{"type": "function", "function": {}}]))
    (request,) = trace
    assert trace.format.name == "openai" and "messages" in trace.why
    assert request.prompt == ChatPrompt((SYSTEM, USER), ({"type": "function", "function": {}},))
    assert (request.id, request.model, request.session, request.arrival_s) == ("1", "m", None, None)


@pytest.mark.parametrize("name", ["body", "request", "request_body"])
def test_a_body_may_lie_inside_of_a_gateways_record(tmp_path: Path, name: str) -> None:
    row = {"request_id": "r", "timestamp": 5, name: body(USER, user="u"), "usage": None}
    (request,) = opened(tmp_path, row)
    assert (request.id, request.session, request.model) == ("r", "u", "m")
    assert request.prompt == ChatPrompt((USER,))


def test_a_body_may_be_text(tmp_path: Path) -> None:
    row = {"time": 1, "request_json": '{"messages": [{"role": "user", "content": "\\ud83d"}]}'}
    (messages,) = messages_in(tmp_path, row)
    assert messages[0]["content"] == "\ufffd"


def test_batch_requests_keep_their_custom_ids(tmp_path: Path) -> None:
    rows = [
        {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body(USER)},
        {"custom_id": "b", "method": "POST", "url": "/v1/responses", "body": {"input": "hi"}},
        {"custom_id": "c", "method": "POST", "url": "/v1/completions", "body": {"prompt": "hi"}},
    ]
    trace = opened(tmp_path, *rows)
    assert "Batch" in trace.why
    assert [request.id for request in trace] == ["a", "b", "c"]
    assert [request.prompt for request in trace] == [
        ChatPrompt((USER,)),
        ChatPrompt((USER,)),
        TextPrompt("hi"),
    ]


def test_the_reply_and_its_usage_are_recorded(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 20, "completion_tokens": 7} | {
        "prompt_tokens_details": {"cached_tokens": 16}
    }
    response = {
        "choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [CALL]}}]
    }
    (request,) = opened(tmp_path, {"request": body(USER), "response": {**response, "usage": usage}})
    assert request.reply == {"role": "assistant", "content": "", "tool_calls": [CALL]}
    assert (request.recorded.prompt_tokens, request.recorded.cached_tokens) == (20, 16)
    assert request.output_tokens == 7


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 10}, (10, None)),
        ({"input_tokens": 10, "input_tokens_details": {"cached_tokens": 4}}, (10, 4)),
        ({"input_tokens": 10, "cache_read_input_tokens": 4}, (14, 4)),
        ({"input_tokens": 1, "cache_creation_input_tokens": 2}, (3, 0)),
        ({"prompt_tokens": 10, "cache_read_input_tokens": 4}, (10, 4)),
        ({"prompt_tokens": 10, "prompt_cache_hit_tokens": 4}, (10, 4)),
        ({"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 16}}, (19, 16)),
    ],
)
def test_cached_tokens_end_up_inside_of_the_prompts(
    tmp_path: Path, usage: dict[str, Any], expected: tuple[int, int | None]
) -> None:
    (request,) = opened(tmp_path, {**body(USER), "usage": usage})
    assert (request.recorded.prompt_tokens, request.recorded.cached_tokens) == expected


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (1760997623, 0.0),
        (1760997623000, 0.0),
        (1760997623000000, 0.0),
        (1760997623000000000, 0.0),
        ("2025-10-20T22:00:23Z", 0.0),
        ("2025-10-20T22:00:24.5+00:00", 1.5),
        ("2025-10-20 22:00:24.500000", 1.5),
        ("1760997625", 2.0),
    ],
)
def test_times_are_seconds_whatever_their_unit(
    tmp_path: Path, written: Any, seconds: float
) -> None:
    origin = {**body(USER), "timestamp": 1760997623}
    _, request = opened(tmp_path, origin, {**body(SYSTEM, USER), "timestamp": written})
    assert request.arrival_s == seconds


def test_a_turn_waits_for_the_turn_that_it_goes_on_from(tmp_path: Path) -> None:
    def row(at: float, *messages: Any) -> dict[str, Any]:
        return {**body(*messages), "timestamp": at, "duration_ms": 500, "session_id": "s"}

    first, other, second = opened(
        tmp_path, row(10, USER), row(10.1, SYSTEM, USER), row(12, USER, ANSWER, USER)
    )
    assert (first.after, other.after) == ((), ())
    assert (second.after, second.delay_s) == ((first.id,), pytest.approx(1.5))


def test_turns_of_other_sessions_are_not_waited_for(tmp_path: Path) -> None:
    rows = [
        {**body(USER), "session_id": "a"},
        {**body(USER, ANSWER, USER), "session_id": "b"},
    ]
    assert [request.after for request in opened(tmp_path, *rows)] == [(), ()]


@pytest.mark.report("S60")
@pytest.mark.parametrize("content", [{"content": None}, {}, {"content": []}, {"content": ""}])
def test_a_message_without_content_keeps_its_tool_calls(
    tmp_path: Path, content: dict[str, Any]
) -> None:
    ((_, message, _),) = messages_in(
        tmp_path,
        body(USER, {"role": "assistant", "tool_calls": [CALL], **content}, USER),
    )
    assert message == {"role": "assistant", "content": "", "tool_calls": [CALL]}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"messages": [{"content": "hi"}]}, "a message has no role: messages[0]"),
        ({"messages": [{"role": None}]}, "a message has no role: messages[0]"),
        ({"messages": ["hi"]}, "a message must be an object: messages[0] is 'hi'"),
        ({"messages": []}, "messages is empty"),
        ({"messages": {}}, "messages must be a list: it is an object"),
        ({"messages": [{"role": "user", "content": 5}]}, "content must be text, null or a list"),
        ({"messages": [{"role": "user", "content": [5]}]}, "a content part must be an object"),
        ({"messages": [{**ANSWER, "tool_calls": [{}]}]}, "a tool call has no name: it is null"),
        ({"messages": [USER], "tools": [5]}, "a tool schema must be an object: it is 5"),
        ({"messages": [USER], "timestamp": "soon"}, "timestamp must be a time: it is 'soon'"),
        ({"messages": [USER], "timestamp": -4}, "timestamp must be a time: it is -4"),
        ({"messages": [USER], "usage": {"prompt_tokens": -1}}, "prompt_tokens must be a whole"),
        ({"model": "m"}, "no messages"),
    ],
)
def test_a_bad_record_is_refused_with_its_place(
    tmp_path: Path, row: dict[str, Any], reason: str
) -> None:
    message = refused(tmp_path, body(USER), row)
    assert message.startswith(f"trace.jsonl:2: {reason}")
    lenient = opened(tmp_path, body(USER), row, lenient=True)
    assert (len(lenient), sum(lenient.skipped.values())) == (1, 1)


def test_models_are_kept_apart(tmp_path: Path) -> None:
    trace = opened(tmp_path, body(USER), {**body(USER), "model": "other"})
    assert [request.model for request in trace] == ["m", "other"]


def test_the_same_id_twice_is_made_two(tmp_path: Path) -> None:
    rows = [{**body(USER), "id": "x"}, {**body(SYSTEM, USER), "id": "x"}]
    assert len({request.id for request in opened(tmp_path, *rows)}) == 2


def test_an_image_keeps_its_identity_and_says_that_its_size_is_unknown(tmp_path: Path) -> None:
    def image(url: str) -> dict[str, Any]:
        part = {"type": "image_url", "image_url": {"url": url}}
        return {"role": "user", "content": [{"type": "text", "text": "see "}, part]}

    rows = [body(image("a")), body(image("a")), body(image("b"))]
    first, same, other = (messages[0]["content"] for messages in messages_in(tmp_path, *rows))
    assert first == same != other and first.startswith("see [image_url ")
    assert any("Images" in warning for warning in opened(tmp_path, *rows).warnings)
