"""The messages of a GenAI span, wherever the convention of the day put them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvtool.traces.content import compact, content_text
from kvtool.traces.embedded_json import unpacked
from kvtool.traces.indexed import indexed
from kvtool.traces.messages import messages_of
from kvtool.traces.read_log import BadRecord
from kvtool.traces.record import shown
from kvtool.traces.spans import Span
from kvtool.traces.tool_calls import tool_call, tools_of
from kvtool.traces.trace_request import ChatPrompt, Json

NO_CONTENT = "a model call without its messages; was the capture of content switched on"
CHOICE = "gen_ai.choice"
ROLE_EVENTS = {f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")}


def prompt_of(span: Span) -> ChatPrompt:
    """Raises `BadRecord` for a span without messages."""
    system = _system(_found(span, "gen_ai.system_instructions"))
    said = _said(span, "gen_ai.input.messages", "gen_ai.prompt")
    messages = (*system, *_messages(said, "user"), *(() if said else _of_events(span)))
    if not messages:
        raise BadRecord(NO_CONTENT)
    tools = _found(span, "gen_ai.tool.definitions", "gen_ai.request.tools") or indexed(
        span.attributes, "llm.request.functions"
    )
    return ChatPrompt(messages, tools_of(tools))


def reply_of(span: Span) -> Json | None:
    said = _said(span, "gen_ai.output.messages", "gen_ai.completion")
    if not said:
        said = [fields.get("message", fields) for name, fields in span.events if name == CHOICE]
    return next(iter(_messages(said, "assistant")), None)


def _said(span: Span, name: str, older: str) -> Any:
    return _found(span, name) or indexed(span.attributes, older) or _found(span, older)


def _found(span: Span, *names: str) -> Any:
    """An attribute of the span or of one of its events; JSON text is opened."""
    for fields in (span.attributes, *(fields for _, fields in span.events)):
        for name in names:
            if fields.get(name):
                return unpacked(fields[name])
    return None


def _of_events(span: Span) -> Iterator[Json]:
    """One event a message, as the convention had it in 2024."""
    for name, fields in span.events:
        if (role := ROLE_EVENTS.get(name)) is not None:
            body = {key: unpacked(value) for key, value in fields.items()}
            message_id = {"tool_call_id": body["id"]} if "id" in body else {}
            yield from messages_of([{"role": role, **message_id, **body}])


def _system(instructions: Any) -> tuple[Json, ...]:
    content = content_text(instructions)
    return ({"role": "system", "content": content},) if content else ()


def _messages(said: Any, role: str) -> tuple[Json, ...]:
    """said: messages with parts or content, or the text of one."""
    if not said:
        return ()
    if isinstance(said, str):
        return ({"role": role, "content": said},)
    if isinstance(said, Mapping):
        said = said.get("messages", [said])
    if not isinstance(said, list):
        raise BadRecord("messages must be a list", f"it is {shown(said)}")
    return tuple(part for message in said for part in _parts_of(message, role))


def _parts_of(message: Any, role: str) -> Iterator[Json]:
    if isinstance(message, str):
        message = {"content": message}
    if not isinstance(message, Mapping) or not isinstance(message.get("parts"), list):
        content = {"content": unpacked(message["content"])} if _has_blocks(message) else {}
        yield from messages_of([{"role": role, **message, **content}])
        return
    role = str(message.get("role", role))
    parts = [part for part in message["parts"] if isinstance(part, Mapping)]
    for part in parts:
        if part.get("type") == "tool_call_response":
            yield _result(part.get("response", part.get("result")), part.get("id"))
    told = [part for part in parts if part.get("type") != "tool_call_response"]
    if told or not parts:
        yield from messages_of([{"role": role, **_told(told)}])


def _told(parts: list[Json]) -> Json:
    calls = [
        tool_call(part.get("name"), part.get("arguments"), part.get("id"))
        for part in parts
        if part.get("type") == "tool_call"
    ]
    reasoning = content_text([part for part in parts if part.get("type") == "reasoning"])
    return {
        "content": content_text([part for part in parts if part.get("type") not in _OTHER]),
        **({"tool_calls": calls} if calls else {}),
        **({"reasoning_content": reasoning} if reasoning else {}),
    }


_OTHER = ("tool_call", "reasoning")


def _has_blocks(message: Any) -> bool:
    """Contents with parts were written as JSON text by some versions."""
    content = message.get("content") if isinstance(message, Mapping) else None
    return isinstance(content, str) and content.startswith('[{"')


def _result(result: Any, call_id: Any) -> Json:
    content = result if isinstance(result, str) else compact(result)
    message = {"role": "tool", "content": content}
    return {**message, "tool_call_id": str(call_id)} if call_id is not None else message
