"""Dynamo's agentic Mooncake traces: Mooncake rows that wait for other rows and for tools.

`wait_for` names the requests that must end first; the request then comes `delay` + `tool_wait_ms`
later, and its `timestamp` no longer counts. `branches` names the requests that this one starts.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.traces.mooncake import (
    DETAILS,
    OUTPUT,
    SMALLEST_PRIORITY,
    TIME,
    milliseconds,
    prompt_in,
)
from kvtool.traces.read_log import BadRecord, ReadLog
from kvtool.traces.record import Record, text, texts, whole
from kvtool.traces.trace_file import Head, TraceFile
from kvtool.traces.trace_format import Format, one_by_one
from kvtool.traces.trace_request import TraceRequest

WAITS = ("wait_for", "branches", "tool_wait_ms")
SHOWN = (*DETAILS, "request_kind", "prefix_reset", "tool_wait_ms", "tool_events")


def recognise(head: Head) -> str | None:
    if "request_id" not in head.first:
        return None
    found = [name for name in WAITS if any(name in record for record in head.records)]
    return f"request_id and {', '.join(found)}" if found else None


def read(file: TraceFile, log: ReadLog) -> Iterator[TraceRequest]:
    started_by: dict[str, str] = {}
    return one_by_one(lambda record, _: _parse(record, started_by))(file, log)


def _parse(record: Record, started_by: dict[str, str]) -> TraceRequest:
    """started_by: which request names a request among its branches, so far."""
    fields = record.value
    request_id = text(fields, "request_id") or _without_id()
    after = texts(fields, "wait_for")
    if not after and request_id in started_by:
        after = (started_by[request_id],)
    for branch in texts(fields, "branches"):
        started_by.setdefault(branch, request_id)
    delays = (milliseconds(fields, "delay", "delay_ms"), milliseconds(fields, "tool_wait_ms"))
    return TraceRequest(
        id=request_id,
        place=record.place,
        prompt=prompt_in(fields),
        arrival_s=None if after else milliseconds(fields, *TIME),
        session=text(fields, "session_id"),
        after=tuple(dict.fromkeys(after)),
        delay_s=sum(delay or 0.0 for delay in delays),
        model=text(fields, "model"),
        priority=whole(fields, "priority", least=SMALLEST_PRIORITY) or 0,
        output_tokens=whole(fields, *OUTPUT),
        details={name: fields[name] for name in SHOWN if name in fields},
    )


def _without_id() -> str:
    raise BadRecord("request_id is missing")


FORMAT = Format("agentic-mooncake", "an agentic Mooncake trace", recognise, read)
