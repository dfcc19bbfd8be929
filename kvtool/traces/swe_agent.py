"""Trajectories of SWE-agent (`.traj`).

Steps of newer files have the messages that were sent (`query`, or `messages`): they are the
prompts, for history processors may have shortened old observations. Elsewhere each reply in
`history` is a request whose prompt is all before it, of the same agent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from kvtool.traces.conversation import Conversation, requests_of
from kvtool.traces.embedded_json import unpacked_object
from kvtool.traces.messages import messages_of
from kvtool.traces.read_log import BadRecord, ReadLog
from kvtool.traces.record import Record, inner, items, number, shown, text
from kvtool.traces.trace_file import Head, TraceFile
from kvtool.traces.trace_format import Format
from kvtool.traces.trace_request import ChatPrompt, Json, TraceRequest

NOTE = (
    "SWE-agent steps without query or messages: prompts are the plain history, although a history "
    "processor may have shortened old observations"
)


def recognise(head: Head) -> str | None:
    history = head.first.get("history")
    first = history[0] if isinstance(history, list) and history else None
    if isinstance(first, Mapping) and "role" in first:
        return "history with roles: a SWE-agent trajectory"
    return None


def read(file: TraceFile, log: ReadLog) -> Iterator[TraceRequest]:
    for record in file.records(log):
        try:
            yield from _requests(record, log)
        except BadRecord as fault:
            log.refuse(record.place, fault)


def _requests(record: Record, log: ReadLog) -> Iterator[TraceRequest]:
    steps = [_object(step, "a step") for step in items(record.value, "trajectory")]
    asked = [step for step in steps if _query(step)]
    if asked:
        yield from _of_steps(record, asked)
        return
    log.note(NOTE, record.place)
    history = [_object(message, "a message") for message in items(record.value, "history")]
    by_agent = sorted(history, key=_agent)
    for agent, messages in groupby(by_agent, key=_agent):
        yield from _of_history(record, agent, list(messages), steps)


def _of_steps(record: Record, steps: list[Json]) -> Iterator[TraceRequest]:
    before: tuple[str, ...] = ()
    waited = 0.0
    session = _session(record)
    for number_, step in enumerate(steps, start=1):
        request = TraceRequest(
            id=f"{session}#{number_}",
            place=record.place,
            prompt=ChatPrompt(messages_of([_linked(m) for m in _query(step)])),
            session=session,
            after=before,
            delay_s=waited,
            model=_model(record.value),
            reply=_reply(step),
        )
        yield request
        before, waited = (request.id,), number(step, "execution_time") or 0.0


def _of_history(
    record: Record, agent: str, history: list[Json], steps: list[Json]
) -> Iterator[TraceRequest]:
    """A demonstration speaks with the model's voice, but no model was asked for it."""
    pairs = [(part, m) for m in history for part in messages_of([_linked(m)])]
    scripted = frozenset(i for i, (_, m) in enumerate(pairs) if m.get("is_demo"))
    replies = [i for i, (m, _) in enumerate(pairs) if m["role"] == "assistant"]
    waits = [number(step, "execution_time") or 0.0 for step in steps]
    session = _session(record)
    yield from requests_of(
        Conversation(
            session=session if agent in ("", "main", "primary") else f"{session}/{agent}",
            place=record.place,
            messages=[message for message, _ in pairs],
            model=_model(record.value),
            delays_s=dict(zip([i for i in replies if i not in scripted][1:], waits)),
            scripted=scripted,
        )
    )


def _query(step: Json) -> list[Any]:
    return items(step, "query", "messages")


def _reply(step: Json) -> Json | str | None:
    if step.get("tool_calls"):
        reply = {**step, "role": "assistant", "content": step.get("response") or ""}
        return messages_of([reply])[0]
    return text(step, "response")


def _linked(message: object) -> object:
    """A result names the calls it answers in a list."""
    if isinstance(message, Mapping) and message.get("role") == "tool":
        ids = message.get("tool_call_ids")
        if isinstance(ids, list) and ids:
            return {**message, "tool_call_id": str(ids[0])}
    return message


def _agent(message: Json) -> str:
    return text(message, "agent") or ""


def _session(record: Record) -> str:
    name = record.place.file.removesuffix(".gz").removesuffix(".traj")
    return name if record.place.line == 1 else f"{name}:{record.place.line}"


def _model(fields: Json) -> str | None:
    agent = inner(unpacked_object(fields.get("replay_config")) or {}, "agent")
    return text(inner(agent, "model"), "name")


def _object(value: object, what: str) -> Json:
    if not isinstance(value, Mapping):
        raise BadRecord(f"{what} must be an object", f"it is {shown(value)}")
    return value


FORMAT = Format("swe-agent", "SWE-agent trajectories", recognise, read)
