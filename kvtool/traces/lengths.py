"""Logs of lengths alone: Azure's and BurstGPT's CSV files, TraceLab's rounds."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator

from kvtool.traces.read_log import BadRecord, ReadLog
from kvtool.traces.record import Record, need_whole, number, shown, text, whole
from kvtool.traces.timestamps import seconds
from kvtool.traces.trace_file import Head, TraceFile
from kvtool.traces.trace_format import Format, one_by_one
from kvtool.traces.trace_request import Json, LengthPrompt, Place, Recorded, TraceRequest

AZURE = {"TIMESTAMP", "ContextTokens", "GeneratedTokens"}
BURSTGPT = {"Timestamp", "Request tokens", "Response tokens"}
TRACELAB = {"prefix_tokens", "newly_append_tokens"}


def recognise(head: Head) -> str | None:
    columns = _columns(head)
    for name, wanted in (("Azure", AZURE), ("BurstGPT", BURSTGPT)):
        if wanted <= columns:
            return f"the header {', '.join(sorted(wanted))}: {name}"
    if head.first.keys() >= TRACELAB:
        return "prefix_tokens and newly_append_tokens: TraceLab rounds"
    return None


def read(file: TraceFile, log: ReadLog) -> Iterator[TraceRequest]:
    if file.head().first.keys() >= TRACELAB:
        return one_by_one(_round)(file, log)
    return _rows(file, log)


def _rows(file: TraceFile, log: ReadLog) -> Iterator[TraceRequest]:
    lines = file.lines(log)
    place, header = next(lines, (Place(file.name, 1), ""))
    try:
        columns = _cells(header)
        parse = _row_parser(set(columns))
    except BadRecord as fault:
        log.refuse(place, fault)
        return
    for place, line in lines:
        try:
            cells = _cells(line)
            if len(cells) != len(columns):
                raise BadRecord(f"a row must have {len(columns)} columns", f"it has {len(cells)}")
            fields = {name: cell for name, cell in zip(columns, cells, strict=True) if cell}
            request = parse(Record(place, fields))
        except BadRecord as fault:
            log.refuse(place, fault)
        else:
            yield request


def _row_parser(columns: set[str]) -> Callable[[Record], TraceRequest]:
    if columns >= AZURE:
        return _azure
    if columns >= BURSTGPT:
        return _burstgpt
    raise BadRecord("not the header of a log of lengths that kvtool knows")


def _columns(head: Head) -> set[str]:
    try:
        return set(_cells(head.lines[0])) if head.lines else set()
    except BadRecord:
        return set()


def _cells(line: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line]))]
    except csv.Error as error:
        raise BadRecord("the record is no row of a CSV file", str(error)) from None


def _azure(record: Record) -> TraceRequest:
    fields = record.value
    return TraceRequest(
        id=str(record.place.line),
        place=record.place,
        prompt=LengthPrompt(
            need_whole(_numbers(fields, "ContextTokens"), "ContextTokens", least=1)
        ),
        arrival_s=seconds(fields, "TIMESTAMP"),
        output_tokens=whole(_numbers(fields, "GeneratedTokens"), "GeneratedTokens"),
    )


def _burstgpt(record: Record) -> TraceRequest:
    fields = _numbers(record.value, "Request tokens", "Response tokens", "Elapsed time")
    return TraceRequest(
        id=str(record.place.line),
        place=record.place,
        prompt=LengthPrompt(need_whole(fields, "Request tokens", least=1)),
        arrival_s=seconds(fields, "Timestamp"),
        session=text(fields, "Session ID"),
        model=text(fields, "Model"),
        output_tokens=whole(fields, "Response tokens"),
        recorded=Recorded(duration_s=number(fields, "Elapsed time")),
        details={"Log Type": fields["Log Type"]} if "Log Type" in fields else {},
    )


def _round(record: Record, log: ReadLog) -> TraceRequest:
    """A round records what the provider's cache had: its prefix."""
    fields = record.value
    cached = need_whole(fields, "prefix_tokens")
    total = cached + need_whole(fields, "newly_append_tokens")
    stated = whole(fields, "input_tokens_total")
    if stated not in (None, total):
        sum_ = f"{total} are not {stated}"
        raise BadRecord("prefix and appended tokens must make up input_tokens_total", sum_)
    if total == 0:
        raise BadRecord("the prompt is empty")
    return TraceRequest(
        id=text(fields, "round_id", "request_id", "id") or str(record.place.line),
        place=record.place,
        prompt=LengthPrompt(total),
        arrival_s=seconds(fields, "timestamp", "start_time", "started_at"),
        session=text(fields, "session_id"),
        model=text(fields, "model"),
        output_tokens=whole(fields, "output_tokens", "output_tokens_total"),
        recorded=Recorded(prompt_tokens=total, cached_tokens=cached),
    )


def _numbers(fields: Json, *names: str) -> Json:
    """The same fields, these as numbers: a CSV file has text only."""
    return {**fields, **{name: _number(fields[name], name) for name in names if name in fields}}


def _number(cell: str, name: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise BadRecord(f"{name} must be a number", f"it is {shown(cell)}") from None


FORMAT = Format("lengths", "a log of lengths", recognise, read)
