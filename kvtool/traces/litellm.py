"""LiteLLM's logs of calls: its standard logging payload and its spend logs.

A log may have hashes of prefix blocks instead of messages (`prefix_block_hashes`, chained, the
last block perhaps partly filled): then only prefix reuse can be told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kvtool.traces.chat_request import Reply, prompt_of, reply_of
from kvtool.traces.embedded_json import unpacked
from kvtool.traces.read_log import BadRecord, ReadLog
from kvtool.traces.record import Record, first_of, inner, need_whole, text, texts, whole
from kvtool.traces.timestamps import lasted, seconds
from kvtool.traces.trace_file import Head, TraceFile
from kvtool.traces.trace_format import Format
from kvtool.traces.trace_request import BlockPrompt, Json, Prompt, Recorded, TraceRequest
from kvtool.traces.turn_order import TurnOrder
from kvtool.traces.usage import usage_of

ANSWERED = "Calls that LiteLLM answered from its own cache of replies reached no model: left out"
HASHES = "prefix_block_hashes"


def recognise(head: Head) -> str | None:
    first = head.first
    if "startTime" in first and "endTime" in first:
        found = [n for n in ("messages", HASHES, "call_type", "litellm_params") if n in first]
        if found:
            return f"startTime, endTime and {found[0]}: LiteLLM's log of calls"
    if "call_type" in first and "messages" in first:
        return "call_type and messages: LiteLLM's log of calls"
    return None


def read(file: TraceFile, log: ReadLog) -> Iterator[TraceRequest]:
    order = TurnOrder()
    for record in file.records(log):
        if record.value.get("cache_hit") in (True, "True", "true"):
            log.note(ANSWERED, record.place)
            continue
        try:
            request = _request(record)
        except BadRecord as fault:
            log.refuse(record.place, fault)
        else:
            yield order.ordered(request)


def _request(record: Record) -> TraceRequest:
    fields = record.value
    reply = _reply(fields)
    started = seconds(fields, "startTime", "start_time")
    return TraceRequest(
        id=text(fields, "request_id", "id", "litellm_call_id") or str(record.place.line),
        place=record.place,
        prompt=_prompt(fields),
        arrival_s=started,
        session=text(fields, "session_id", "trace_id"),
        model=text(fields, "model"),
        output_tokens=_first(whole(fields, "completion_tokens"), reply.usage.output_tokens),
        reply=reply.message,
        recorded=Recorded(
            prompt_tokens=_first(whole(fields, "prompt_tokens"), reply.usage.prompt_tokens),
            cached_tokens=reply.usage.cached_tokens,
            ttft_s=lasted(started, seconds(fields, "completionStartTime")),
            duration_s=lasted(started, seconds(fields, "endTime", "end_time")),
        ),
    )


def _prompt(fields: Json) -> Prompt:
    metadata = unpacked(fields.get("metadata"))
    sent = unpacked(fields.get("proxy_server_request"))
    hashed = next((place for place in (fields, metadata) if _has_hashes(place)), None)
    messages = unpacked(fields.get("messages"))
    if not messages and isinstance(sent, Mapping) and sent.get("messages"):
        return prompt_of(sent)
    if not messages and isinstance(hashed, Mapping):
        return BlockPrompt(texts(hashed, HASHES), need_whole(fields, "prompt_tokens", least=1))
    if isinstance(messages, str) and messages:
        return prompt_of({"prompt": messages})
    return prompt_of({"messages": messages or [], "tools": _tools(fields, sent)})


def _has_hashes(place: object) -> bool:
    return isinstance(place, Mapping) and isinstance(place.get(HASHES), list)


def _tools(fields: Json, sent: object) -> object:
    for name in ("optional_params", "model_parameters"):
        parameters = unpacked(fields.get(name))
        if isinstance(parameters, Mapping) and parameters.get("tools"):
            return parameters["tools"]
    return first_of(fields, "tools") or (sent.get("tools") if isinstance(sent, Mapping) else None)


def _reply(fields: Json) -> Reply:
    metadata = unpacked(fields.get("metadata"))
    beside = metadata.get("usage_object") if isinstance(metadata, Mapping) else None
    response = unpacked(fields.get("response"))
    reply = reply_of(response, beside if isinstance(beside, Mapping) else inner(fields, "usage"))
    if reply.usage.cached_tokens is None and isinstance(beside, Mapping):
        return reply._replace(usage=usage_of(beside))
    return reply


def _first(*counts: int | None) -> int | None:
    return next((count for count in counts if count is not None), None)


FORMAT = Format("litellm", "LiteLLM log of calls", recognise, read)
