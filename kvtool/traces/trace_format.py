"""What a trace format is: how it is recognised, and how its records become requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kvtool.traces.read_log import BadRecord, ReadLog
from kvtool.traces.record import Record
from kvtool.traces.trace_file import Head, TraceFile
from kvtool.traces.trace_request import TraceRequest

Recognise = Callable[[Head], str | None]
Read = Callable[[TraceFile, ReadLog], Iterator[TraceRequest]]


@dataclass(frozen=True, slots=True)
class Format:
    """name: as `--input-format` takes it. title: for people. recognise: why the first records are
    of this format ("hash_ids and input_length"), None if they are not. read: the requests in the
    order of the file; ids and times raw (`arrival_s` in seconds from any origin): `Trace` makes ids
    unique and lets time start at 0. `read` reports a bad record to `ReadLog.refuse` and goes on.
    """

    name: str
    title: str
    recognise: Recognise
    read: Read


def one_by_one(parse: Callable[[Record, ReadLog], TraceRequest]) -> Read:
    """`read` of a format in which each record is a request; `parse` raises `BadRecord`."""

    def read(file: TraceFile, log: ReadLog) -> Iterator[TraceRequest]:
        for record in file.records(log):
            try:
                request = parse(record, log)
            except BadRecord as fault:
                log.refuse(record.place, fault)
            else:
                yield request

    return read
