"""Observations exported from Langfuse: those of type GENERATION are calls of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kvtool.traces.chat_request import prompt_of, reply_of
from kvtool.traces.embedded_json import unpacked
from kvtool.traces.messages import message_of
from kvtool.traces.read_log import BadRecord, ReadLog
from kvtool.traces.record import Record, inner, text, whole
from kvtool.traces.timestamps import lasted, seconds
from kvtool.traces.trace_file import Head, TraceFile
from kvtool.traces.trace_format import Format
from kvtool.traces.trace_request import ChatPrompt, Json, Recorded, TextPrompt, TraceRequest
from kvtool.traces.turn_order import TurnOrder
from kvtool.traces.usage import Usage

CACHED = ("input_cached_tokens", "cache_read_input_tokens", "input_cache_read")


def recognise(head: Head) -> str | None:
    for record in head.records:
        if record.get("type") == "GENERATION" and ("traceId" in record or "trace_id" in record):
            return "type GENERATION and traceId: Langfuse observations"
        if isinstance(record.get("observations"), list):
            return "observations: Langfuse traces"
    return None


def read(file: TraceFile, log: ReadLog) -> Iterator[TraceRequest]:
    order = TurnOrder()
    for record in file.records(log):
        for fields in _observations(record.value):
            try:
                request = _request(Record(record.place, fields))
            except BadRecord as fault:
                log.refuse(record.place, fault)
            else:
                yield order.ordered(request)


def _observations(fields: Json) -> Iterator[Json]:
    """A trace holds its observations; they are told of its session."""
    inside = fields.get("observations")
    for observation in inside if isinstance(inside, list) else [fields]:
        if isinstance(observation, Mapping) and observation.get("type") == "GENERATION":
            yield {"sessionId": fields.get("sessionId"), "traceId": fields.get("id"), **observation}


def _request(record: Record) -> TraceRequest:
    fields = record.value
    started, ended = (seconds(fields, f"{e}Time", f"{e}_time") for e in ("start", "end"))
    usage = _usage(inner(fields, "usageDetails", "usage_details", "usage"))
    return TraceRequest(
        id=text(fields, "id") or str(record.place.line),
        place=record.place,
        prompt=_prompt(unpacked(fields.get("input")), fields),
        arrival_s=started,
        session=text(fields, "sessionId", "session_id", "traceId", "trace_id"),
        model=text(fields, "model", "providedModelName"),
        output_tokens=usage.output_tokens,
        reply=_reply(unpacked(fields.get("output"))),
        recorded=Recorded(
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            ttft_s=lasted(started, seconds(fields, "completionStartTime")),
            duration_s=lasted(started, ended),
        ),
    )


def _prompt(written: object, fields: Json) -> ChatPrompt | TextPrompt:
    if isinstance(written, list):
        return prompt_of({"messages": written, "tools": _tools(fields)})
    if isinstance(written, Mapping):
        return prompt_of(
            {"tools": _tools(fields), **written} if _is_body(written) else _one(written)
        )
    if isinstance(written, str) and written:
        return TextPrompt(written)
    raise BadRecord("input is empty", "a generation without its prompt")


def _is_body(written: Json) -> bool:
    return any(name in written for name in ("messages", "prompt", "input"))


def _one(message: Json) -> Json:
    return {"messages": [{"role": "user", **message}]}


def _tools(fields: Json) -> object:
    metadata = unpacked(fields.get("metadata"))
    parameters = unpacked(fields.get("modelParameters"))
    for place in (metadata, parameters):
        if isinstance(place, Mapping) and place.get("tools"):
            return unpacked(place["tools"])
    return None


def _reply(written: object) -> Json | str | None:
    if isinstance(written, list):
        written = written[-1] if written else None
    if isinstance(written, Mapping) and ("content" in written or "tool_calls" in written):
        return message_of({**written, "role": "assistant"})
    return reply_of(written).message


def _usage(details: Json) -> Usage:
    """Kinds of input tokens are counted one beside the other, and add up to the prompt."""
    prompt_tokens = whole(details, "input", "promptTokens", "prompt_tokens")
    cached = whole(details, *CACHED)
    beside = [name for name in details if name not in CACHED and _is_input(name)]
    parts = [whole(details, name) or 0 for name in beside]
    if prompt_tokens is not None:
        prompt_tokens += sum(parts) + (cached or 0)
    return Usage(prompt_tokens, cached, whole(details, "output", "completionTokens"))


def _is_input(name: str) -> bool:
    return name.startswith("input_") or name == "cache_creation_input_tokens"


FORMAT = Format("langfuse", "Langfuse observations", recognise, read)
