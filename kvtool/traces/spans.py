"""Spans of OpenTelemetry, in OTLP's JSON and as Python's exporters print them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from kvtool.traces.read_log import BadRecord, ReadLog
from kvtool.traces.record import inner, items, shown, text
from kvtool.traces.timestamps import lasted, seconds
from kvtool.traces.trace_file import TraceFile
from kvtool.traces.trace_request import Json, Place, TraceRequest
from kvtool.traces.turn_order import TurnOrder


class Span(NamedTuple):
    """attributes: flat, dotted names. events: name and attributes of each."""

    place: Place
    id: str
    trace_id: str | None
    started_s: float | None
    ended_s: float | None
    attributes: Json
    events: tuple[tuple[str, Json], ...] = ()

    @property
    def duration_s(self) -> float | None:
        return lasted(self.started_s, self.ended_s)


def requests_of_spans(
    file: TraceFile,
    log: ReadLog,
    is_model_call: Callable[[Span], bool],
    parse: Callable[[Span], TraceRequest],
) -> Iterator[TraceRequest]:
    """One for each model call; `parse` raises `BadRecord`."""
    order = TurnOrder()
    for span in filter(is_model_call, spans_of(file, log)):
        try:
            request = parse(span)
        except BadRecord as fault:
            log.refuse(span.place, fault)
        else:
            yield order.ordered(request)


def spans_of(file: TraceFile, log: ReadLog) -> Iterator[Span]:
    for record in file.records(log):
        try:
            for number, span in enumerate(raw_spans(record.value), start=1):
                yield _span(span, record.place, number)
        except BadRecord as fault:
            log.refuse(record.place, fault)


def raw_spans(document: Json) -> Iterator[Json]:
    """The spans of an OTLP document, or the record itself."""
    resources = document.get("resourceSpans", document.get("resource_spans"))
    if resources is None:
        yield document
        return
    for resource in _objects(resources, "resourceSpans"):
        scopes = resource.get("scopeSpans", resource.get("scope_spans")) or []
        for scope in _objects(scopes, "scopeSpans"):
            yield from _objects(scope.get("spans") or [], "spans")


def attributes_of(span: Json) -> Json:
    """Flat, from OTLP's list of key and value or from an object, nested or not."""
    written = span.get("attributes")
    if isinstance(written, list):
        pairs = _objects(written, "attributes")
        written = {str(pair.get("key")): _value(pair.get("value")) for pair in pairs}
    if not isinstance(written, Mapping):
        return {}
    return dict(_flat("", written))


def _span(span: Json, place: Place, number: int) -> Span:
    context = inner(span, "context")
    span_id = text(span, "spanId", "span_id") or text(context, "span_id")
    events = (
        (str(event.get("name")), attributes_of(event))
        for event in _objects(items(span, "events"), "events")
    )
    return Span(
        place=place,
        id=span_id or f"{place.line}.{number}",
        trace_id=text(span, "traceId", "trace_id") or text(context, "trace_id"),
        started_s=seconds(span, "startTimeUnixNano", "start_time_unix_nano", "start_time"),
        ended_s=seconds(span, "endTimeUnixNano", "end_time_unix_nano", "end_time"),
        attributes=attributes_of(span),
        events=tuple(events),
    )


def _objects(values: object, name: str) -> list[Json]:
    if not isinstance(values, list) or not all(isinstance(value, Mapping) for value in values):
        raise BadRecord(f"{name} must be a list of objects", f"it is {shown(values)}")
    return values


def _value(value: object) -> Any:
    """OTLP wraps each value in an object that names its type; whole numbers are text."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return value
    kind, inside = next(iter(value.items()))
    if kind == "intValue" and isinstance(inside, str):
        return int(inside) if inside.lstrip("-").isdecimal() and len(inside) < 20 else inside
    if kind == "arrayValue" and isinstance(inside, Mapping):
        return [_value(element) for element in inside.get("values") or []]
    if kind == "kvlistValue" and isinstance(inside, Mapping):
        pairs = _objects(inside.get("values") or [], "kvlistValue")
        return {str(pair.get("key")): _value(pair.get("value")) for pair in pairs}
    return inside


def _flat(prefix: str, fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Objects inside are opened as far as their names are part of a dotted name; lists stay."""
    for key, value in fields.items():
        name = f"{prefix}{key}"
        yield name, value
        if isinstance(value, Mapping):
            yield from _flat(f"{name}.", value)
