"""LMCache's agent traces: the flattened prompt and the reply, both text.

Neighbouring lines run backwards in time, and one session may hold two callers, so nothing is said
about which request waits for which.
"""

from __future__ import annotations

from kvtool.traces.read_log import BadRecord, ReadLog
from kvtool.traces.record import Record, shown, text
from kvtool.traces.timestamps import seconds
from kvtool.traces.trace_file import Head
from kvtool.traces.trace_format import Format, one_by_one
from kvtool.traces.trace_request import TextPrompt, TraceRequest

_FIELDS = ("timestamp", "input", "output", "session_id")


def recognise(head: Head) -> str | None:
    first = head.first
    if all(isinstance(first.get(name), str) for name in _FIELDS[1:]) and "timestamp" in first:
        return f"{', '.join(_FIELDS)} with text"
    return None


def parse(record: Record, log: ReadLog) -> TraceRequest:
    fields = record.value
    prompt = fields.get("input")
    if not isinstance(prompt, str):
        raise BadRecord("input must be text", f"it is {shown(prompt)}")
    if not prompt:
        raise BadRecord("input is empty")
    return TraceRequest(
        id=str(record.place.line),
        place=record.place,
        prompt=TextPrompt(prompt),
        arrival_s=seconds(fields, "timestamp"),
        session=text(fields, "session_id"),
        reply=text(fields, "output"),
    )


FORMAT = Format("lmcache", "LMCache agent trace", recognise, one_by_one(parse))
