"""Rollouts of Codex (`~/.codex/sessions`): a log of what entered the context, in order.

A response begins with the first item that the model wrote after something else, and ends with the
next item that it did not write or with its token count. Token counts are cumulative; those of one
response are `last_token_usage`, and cached tokens are part of the input.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.traces.codex_context import Context
from kvtool.traces.read_log import BadRecord, ReadLog
from kvtool.traces.record import Record, inner, text
from kvtool.traces.timestamps import seconds
from kvtool.traces.trace_file import Head, TraceFile
from kvtool.traces.trace_format import Format
from kvtool.traces.trace_request import TraceRequest

NOTE = "Codex files do not have the tool schemas: prompts are shorter than the recorded ones"
TYPES = ("session_meta", "turn_context", "response_item", "event_msg", "compacted")


def recognise(head: Head) -> str | None:
    if head.first.get("type") in TYPES and isinstance(head.first.get("payload"), dict):
        return f"type {head.first['type']} with a payload: a Codex rollout"
    return None


def read(file: TraceFile, log: ReadLog) -> Iterator[TraceRequest]:
    """A response is complete when the next one begins, for its token count may come late."""
    log.note(NOTE)
    context = Context(file.name)
    for record in file.records(log):
        try:
            done = _taken(context, record)
        except BadRecord as fault:
            log.refuse(record.place, fault)
            continue
        if done is not None:
            yield done
    last = context.close()
    if last is not None:
        yield last


def _taken(context: Context, record: Record) -> TraceRequest | None:
    """Gives a request when this record shows that the one before it is complete."""
    kind, payload = record.value.get("type"), inner(record.value, "payload")
    time_s = seconds(record.value, "timestamp")
    if kind == "session_meta":
        context.begin(payload, time_s)
    elif kind == "turn_context":
        context.model = text(payload, "model") or context.model
    elif kind == "response_item":
        return context.add(payload, record.place, time_s)
    elif kind == "compacted":
        context.compact(payload, time_s)
    elif kind == "event_msg" and payload.get("type") == "token_count":
        context.count(inner(payload, "info"))
    return None


FORMAT = Format("codex", "Codex rollout", recognise, read)
