"""Trajectories of tau-bench: a list of runs, each with the agent's messages in `traj`."""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.traces.conversation import Conversation, requests_of
from kvtool.traces.messages import messages_of
from kvtool.traces.read_log import BadRecord, ReadLog
from kvtool.traces.record import Record, text
from kvtool.traces.trace_file import Head, TraceFile
from kvtool.traces.trace_format import Format
from kvtool.traces.trace_request import TraceRequest

NO_TOOLS = "tau-bench files do not have the tool schemas that each prompt carried"


def recognise(head: Head) -> str | None:
    if isinstance(head.first.get("traj"), list) and "task_id" in head.first:
        return "task_id and traj: tau-bench trajectories"
    return None


def read(file: TraceFile, log: ReadLog) -> Iterator[TraceRequest]:
    log.note(NO_TOOLS)
    for record in file.records(log):
        try:
            yield from requests_of(_conversation(record))
        except BadRecord as fault:
            log.refuse(record.place, fault)


def _conversation(record: Record) -> Conversation:
    fields = record.value
    task, trial = text(fields, "task_id"), text(fields, "trial")
    return Conversation(
        session=f"task-{record.place.line if task is None else task}-trial-{trial or 0}",
        place=record.place,
        messages=messages_of(fields.get("traj")),
    )


FORMAT = Format("tau-bench", "tau-bench trajectories", recognise, read)
