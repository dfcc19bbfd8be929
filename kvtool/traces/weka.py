"""WEKA's and SemiAnalysis' traces of Claude Code: one JSON document a session.

Times in seconds. Requests have hash ids of `block_size` tokens for full blocks only, the rest of
the prompt has none. With `hash_id_scope` "local" ids mean something in their session alone. A
request of type `subagent` holds requests of its own; their times count from it or from the start,
whichever the first of them tells.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kvtool.traces.hash_ids import hash_ids_of
from kvtool.traces.own_fields import with_own
from kvtool.traces.read_log import BadRecord, ReadLog
from kvtool.traces.record import Record, items, need_whole, number, shown, text, whole
from kvtool.traces.trace_file import Head, TraceFile
from kvtool.traces.trace_format import Format
from kvtool.traces.trace_request import BlockPrompt, Json, Place, Recorded, TraceRequest

DETAILS = ("type", "stop", "input_types", "output_types")


def recognise(head: Head) -> str | None:
    if isinstance(head.first.get("requests"), list) and "block_size" in head.first:
        scope = head.first.get("hash_id_scope", "global")
        return f"block_size and requests; hash ids are {scope}"
    return None


def read(file: TraceFile, log: ReadLog) -> Iterator[TraceRequest]:
    for record in file.records(log):
        try:
            session = _session(record)
            requests = items(record.value, "requests")
        except BadRecord as fault:
            log.refuse(record.place, fault)
        else:
            yield from sorted(_thread(requests, session, log), key=lambda r: r.arrival_s or 0.0)


class _Session(NamedTuple):
    """The thread of an agent. start_s: what its times count from."""

    name: str
    place: Place
    block_size: int
    scope: str
    start_s: float = 0.0
    after: tuple[str, ...] = ()


class _Ended(NamedTuple):
    """What a later request of the thread may wait for: another, or the last of a sub-agent's."""

    id: str
    at_s: float


def _session(record: Record) -> _Session:
    fields = record.value
    name = text(fields, "id") or f"{record.place}"
    size = need_whole(fields, "block_size", least=1)
    local = text(fields, "hash_id_scope") == "local"
    return _Session(name, record.place, size, str(record.place) if local else "")


def _thread(requests: list[object], session: _Session, log: ReadLog) -> Iterator[TraceRequest]:
    ended: list[_Ended] = []
    for number_, fields in enumerate(requests, start=1):
        try:
            if not isinstance(fields, dict):
                raise BadRecord("a request must be an object", f"it is {shown(fields)}")
            if fields.get("type") == "subagent":
                inner = list(_subagent(fields, session, ended, number_, log))
                ended.extend(_ended(request) for request in inner[-1:])
                yield from inner
            else:
                request = _request(fields, session, ended, number_)
                ended.append(_ended(request))
                yield request
        except BadRecord as fault:
            where = f"request {number_} of {session.name}"
            seen = f"{fault.shown} ({where})" if fault.shown else where
            log.refuse(session.place, BadRecord(fault.reason, seen))


def _subagent(
    fields: Json, parent: _Session, ended: list[_Ended], number_: int, log: ReadLog
) -> Iterator[TraceRequest]:
    started = _time(fields, parent)
    requests = items(fields, "requests")
    first = requests[0] if requests and isinstance(requests[0], dict) else {}
    absolute = (number(first, "t") or 0.0) + parent.start_s >= started
    name = f"{parent.name}/{text(fields, 'agent_id') or number_}"
    start_s = parent.start_s if absolute else started
    after = _before(started, ended, parent)
    yield from _thread(requests, parent._replace(name=name, start_s=start_s, after=after), log)


def _request(fields: Json, session: _Session, ended: list[_Ended], number_: int) -> TraceRequest:
    at_s = _time(fields, session)
    request = TraceRequest(
        id=f"{session.name}/{number_}",
        place=session.place,
        prompt=BlockPrompt(
            hash_ids_of(fields), need_whole(fields, "in", least=1), session.block_size
        ),
        arrival_s=at_s,
        session=session.name,
        after=_before(at_s, ended, session),
        delay_s=number(fields, "think_time") or 0.0,
        model=text(fields, "model"),
        output_tokens=whole(fields, "out"),
        scope=session.scope,
        recorded=Recorded(
            prompt_tokens=whole(fields, "in"),
            ttft_s=number(fields, "ttft"),
            duration_s=number(fields, "api_time"),
        ),
        details={name: fields[name] for name in DETAILS if fields.get(name)},
    )
    return with_own(request, fields, at_s)


def _time(fields: Json, session: _Session) -> float:
    """Seconds since the session began."""
    time = number(fields, "t")
    if time is None:
        raise BadRecord("t is missing")
    return session.start_s + time


def _before(at_s: float, ended: list[_Ended], session: _Session) -> tuple[str, ...]:
    """The last request of the thread that had ended by then; of a sub-agent's first: what its
    agent had ended."""
    done = [request for request in ended if request.at_s <= at_s]
    return (max(done, key=lambda request: request.at_s).id,) if done else session.after


def _ended(request: TraceRequest) -> _Ended:
    assert request.arrival_s is not None
    return _Ended(request.id, request.arrival_s + (request.recorded.duration_s or 0.0))


FORMAT = Format("weka", "a WEKA (cc-traces) session", recognise, read)
