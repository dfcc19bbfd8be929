"""Logs of chat requests: OpenAI's bodies one a line, as gateways dump them, and Batch files.

The body is the record itself, or lies under body, request, request_body or request_json; the
response beside it. A reply's usage gives the recorded prompt and cached tokens. In logs that kvtool
wrote, the field `kvtool` has what OpenAI's form has no place for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kvtool.traces.chat_request import prompt_of, reply_of
from kvtool.traces.content import is_opaque
from kvtool.traces.embedded_json import unpacked_object
from kvtool.traces.read_log import ReadLog
from kvtool.traces.record import Record, first_of, inner, number, text, texts, whole
from kvtool.traces.timestamps import lasted, seconds
from kvtool.traces.trace_file import Head, TraceFile
from kvtool.traces.trace_format import Format, one_by_one
from kvtool.traces.trace_request import Json, Recorded, TraceRequest
from kvtool.traces.turn_order import TurnOrder

OWN = "kvtool"
BODIES = ("body", "request", "request_body", "request_json")
OPAQUE = "Images and files in messages count as a few tokens each: their size is not in the log"


def recognise(head: Head) -> str | None:
    first = head.first
    if "custom_id" in first and isinstance(first.get("body"), Mapping):
        return "custom_id and body: OpenAI Batch requests"
    if _is_of_other_format(first):
        return None
    body = body_of(first)
    if isinstance(body.get("messages"), list):
        where = "" if body is first else " in the request's body"
        return None if _are_conversations(head) else f"messages{where}: chat requests"
    if isinstance(body.get("prompt"), str) and ("model" in body or OWN in first):
        return "model and prompt: completion requests"
    if isinstance(body.get("input"), str | list) and _is_responses_body(body):
        return "model and input: requests to the responses API"
    return None


def read(file: TraceFile, log: ReadLog) -> Iterator[TraceRequest]:
    """What `kvtool` itself wrote says which request each waits for; of others it is worked out."""
    order = TurnOrder()

    def ordered(record: Record, log: ReadLog) -> TraceRequest:
        request = parse(record, log)
        return request if OWN in record.value else order.ordered(request)

    return one_by_one(ordered)(file, log)


def parse(record: Record, log: ReadLog) -> TraceRequest:
    fields, body = record.value, body_of(record.value)
    response, own = _response(fields), inner(fields, OWN)
    prompt, reply = prompt_of(body), reply_of(response, inner(fields, "usage"))
    if any(is_opaque(m.get("content")) for m in body.get("messages") or ()):
        log.note(OPAQUE, record.place)
    started = seconds(fields, *STARTED)
    return TraceRequest(
        id=text(fields, "request_id", "custom_id", "id") or str(record.place.line),
        place=record.place,
        prompt=prompt,
        arrival_s=started,
        session=session_of(fields, body),
        after=texts(own, "after"),
        delay_s=number(own, "delay_s") or 0.0,
        model=text(body, "model") or text(fields, "model"),
        adapter=text(own, "adapter"),
        salt=text(own, "salt"),
        priority=whole(own, "priority", least=-(2**31)) or 0,
        output_tokens=reply.usage.output_tokens,
        reply=reply.message,
        recorded=Recorded(
            prompt_tokens=reply.usage.prompt_tokens,
            cached_tokens=reply.usage.cached_tokens,
            ttft_s=_thousandth(number(fields, "ttft_ms")) or number(fields, "ttft", "ttft_s"),
            duration_s=_duration_s(fields, started),
        ),
    )


STARTED = (
    "timestamp",
    "start_time",
    "startTime",
    "started_at",
    "request_time",
    "time",
    "created_at",
    "created",
)


def body_of(fields: Json) -> Json:
    """The object that has the prompt."""
    if "messages" in fields:
        return fields
    return next(
        (body for name in BODIES if (body := unpacked_object(fields.get(name))) is not None), fields
    )


def session_of(fields: Json, body: Json) -> str | None:
    metadata = unpacked_object(first_of(fields, "metadata") or body.get("metadata")) or {}
    names = ("session_id", "conversation_id", "trace_id", "thread_id")
    for place in (fields, body, metadata):
        if (session := text(place, *names)) is not None:
            return session
    return text(body, "prompt_cache_key", "user") or text(fields, "user")


def _response(fields: Json) -> object:
    response = first_of(fields, "response", "response_body", "response_json", "completion")
    found = unpacked_object(response)
    if found is None:
        return fields if "choices" in fields else response
    return found["body"] if isinstance(found.get("body"), Mapping) else found


def _duration_s(fields: Json, started: float | None) -> float | None:
    ended = seconds(fields, "end_time", "endTime", "ended_at", "completed_at")
    milliseconds = number(fields, "duration_ms", "latency_ms")
    return lasted(started, ended) if ended is not None else _thousandth(milliseconds)


def _thousandth(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1e3


def _is_of_other_format(first: Json) -> bool:
    """What has messages too and says more: LiteLLM's log, a conversation, hash ids."""
    return (
        "call_type" in first
        or ("startTime" in first and "endTime" in first)
        or any(name in first for name in ("hash_ids", "filetype", "simulations", "history"))
    )


def _is_responses_body(body: Json) -> bool:
    """Logs of other formats have an input too, beside an output or the id of a span."""
    of_others = {"output", "type", "traceId", "trace_id"}
    return ("model" in body or "instructions" in body) and of_others.isdisjoint(body)


def _are_conversations(head: Head) -> bool:
    """Every record ends in a reply, and none says anything about a request."""
    about = {"model", "tools", "usage", "response", *STARTED, *BODIES}
    return all(
        isinstance(record.get("messages"), list)
        and record["messages"]
        and isinstance(record["messages"][-1], Mapping)
        and record["messages"][-1].get("role") == "assistant"
        and about.isdisjoint(record)
        for record in head.records
    )


FORMAT = Format("openai", "OpenAI chat requests", recognise, read)
