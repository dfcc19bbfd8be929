"""Spans of OpenInference (Arize Phoenix): `llm.input_messages.N.message.*`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvtool.traces.embedded_json import unpacked, unpacked_object
from kvtool.traces.indexed import indexed
from kvtool.traces.messages import messages_of
from kvtool.traces.read_log import BadRecord, ReadLog
from kvtool.traces.record import shown, text, whole
from kvtool.traces.spans import Span, attributes_of, raw_spans, requests_of_spans
from kvtool.traces.tool_calls import tools_of
from kvtool.traces.trace_file import Head, TraceFile
from kvtool.traces.trace_format import Format
from kvtool.traces.trace_request import ChatPrompt, Json, Recorded, TraceRequest
from kvtool.traces.usage import inclusive

INPUT = "llm.input_messages"


def recognise(head: Head) -> str | None:
    for record in head.records:
        try:
            names = [name for span in raw_spans(record) for name in attributes_of(span)]
        except BadRecord:
            return None
        if any(name.startswith(INPUT) or name == "openinference.span.kind" for name in names):
            return "attributes openinference.* and llm.*: OpenInference spans"
    return None


def read(file: TraceFile, log: ReadLog) -> Iterator[TraceRequest]:
    return requests_of_spans(file, log, _is_model_call, _request)


def _is_model_call(span: Span) -> bool:
    return bool(span.attributes.get("openinference.span.kind", "LLM") == "LLM")


def _request(span: Span) -> TraceRequest:
    fields = span.attributes
    messages = _messages(fields, INPUT)
    if not messages:
        raise BadRecord("a model call without its messages", "llm.input_messages is missing")
    prompt_tokens, cached = inclusive(
        whole(fields, "llm.token_count.prompt"),
        whole(fields, "llm.token_count.prompt_details.cache_read"),
        whole(fields, "llm.token_count.prompt_details.cache_write"),
    )
    return TraceRequest(
        id=span.id,
        place=span.place,
        prompt=ChatPrompt(messages, _tools(fields)),
        arrival_s=span.started_s,
        session=text(fields, "session.id") or span.trace_id,
        model=text(fields, "llm.model_name"),
        output_tokens=whole(fields, "llm.token_count.completion"),
        reply=next(iter(_messages(fields, "llm.output_messages")), None),
        recorded=Recorded(
            prompt_tokens=prompt_tokens, cached_tokens=cached, duration_s=span.duration_s
        ),
    )


def _messages(fields: Json, prefix: str) -> tuple[Json, ...]:
    return messages_of([_message(item) for item in indexed(fields, prefix)])


def _message(item: Any) -> Json:
    message = item.get("message") if isinstance(item, Mapping) else None
    if not isinstance(message, Mapping):
        raise BadRecord("llm.input_messages must hold messages", f"one is {shown(item)}")
    result = dict(message)
    if not result.get("content") and isinstance(contents := result.get("contents"), list):
        result["content"] = [_content(part) for part in contents]
    calls = result.get("tool_calls")
    if isinstance(calls, list):
        result["tool_calls"] = [_inside(call, "tool_call") for call in calls]
    return result


def _content(part: Any) -> Any:
    return _inside(part, "message_content")


def _inside(item: Any, name: str) -> Any:
    return item[name] if isinstance(item, Mapping) and name in item else item


def _tools(fields: Json) -> tuple[Json, ...]:
    schemas = [
        _inside(_inside(tool, "tool"), "json_schema") for tool in indexed(fields, "llm.tools")
    ]
    parameters = unpacked_object(fields.get("llm.invocation_parameters")) or {}
    return tools_of([unpacked(schema) for schema in schemas] or parameters.get("tools"))


FORMAT = Format("openinference", "OpenInference spans", recognise, read)
