"""Trajectories of OpenHands: a list of events, or results with the events in `history`.

Each answer of the model is one or more actions of the agent (calls made side by side share the
response's id); observations and what users say come between. A condensation forgets events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kvtool.traces.openhands_events import Dialogue
from kvtool.traces.read_log import BadRecord, ReadLog
from kvtool.traces.record import Record, inner, items, shown, text
from kvtool.traces.trace_file import Head, TraceFile
from kvtool.traces.trace_format import Format
from kvtool.traces.trace_request import Place, TraceRequest


def recognise(head: Head) -> str | None:
    first = head.first
    if _is_event(first):
        return "events with source and action: an OpenHands trajectory"
    history = first.get("history")
    if isinstance(history, list) and history and _is_event(history[0]):
        return "history of events: OpenHands results"
    return None


def read(file: TraceFile, log: ReadLog) -> Iterator[TraceRequest]:
    whole: Dialogue | None = None  # of a file that is a list of events
    for record in file.records(log):
        if "history" in record.value:
            yield from _of_result(record, log)
            continue
        whole = whole or Dialogue(file.name)
        yield from _taken(whole, record.value, record.place, log)
    if whole is not None:
        yield from whole.close()


def _of_result(record: Record, log: ReadLog) -> Iterator[TraceRequest]:
    try:
        events = items(record.value, "history")
        session = text(record.value, "instance_id") or str(record.place)
        model = text(inner(inner(record.value, "metadata"), "llm_config"), "model")
    except BadRecord as fault:
        log.refuse(record.place, fault)
        return
    dialogue = Dialogue(session, model)
    for event in events:
        yield from _taken(dialogue, event, record.place, log)
    yield from dialogue.close()


def _taken(dialogue: Dialogue, event: object, place: Place, log: ReadLog) -> list[TraceRequest]:
    try:
        if not isinstance(event, Mapping):
            raise BadRecord("an event must be an object", f"it is {shown(event)}")
        return dialogue.add(event, place)
    except BadRecord as fault:
        log.refuse(place, fault)
        return []


def _is_event(value: object) -> bool:
    return (
        isinstance(value, Mapping) and "source" in value and ("action" in value or "args" in value)
    )


FORMAT = Format("openhands", "OpenHands trajectory", recognise, read)
