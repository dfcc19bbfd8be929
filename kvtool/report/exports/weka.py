"""WEKA's form: one session a line, with a salted id for each block of its requests."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import IO, Any

from kvtool.errors import InputError
from kvtool.report.exports.own_fields import check_has_content, known, own_fields
from kvtool.report.exports.salted_ids import SaltedIds
from kvtool.simulation.workload import Workload
from kvtool.traces.own_fields import OWN
from kvtool.traces.prepared import PreparedRequest, Unit


def records(workload: Workload, ids: SaltedIds) -> Iterator[dict[str, Any]]:
    """Raises `InputError` for a trace of lengths, or without times."""
    check_has_content(workload, "weka")
    if not workload.trace.timed:
        raise InputError(
            f"{workload.trace.format.title} does not say when each request arrived, and WEKA's "
            "form must.",
            hint="Use --export mooncake:OUT, where times may be missing.",
        )
    return _sessions(workload, ids)


def _sessions(workload: Workload, ids: SaltedIds) -> Iterator[dict[str, Any]]:
    """Requests of all sessions come in turns, so they wait in a file for the rest of theirs."""
    places: dict[str, list[int]] = {}
    with TemporaryFile() as spool:
        time = -math.inf
        for prepared in workload:
            request = prepared.request
            assert request.arrival_s is not None
            # An order among equal times is lost with the grouping, so none are equal.
            time = max(request.arrival_s, math.nextafter(time, math.inf))
            name = _session_of(prepared, ids)
            places.setdefault(name, []).append(spool.tell())
            record = _record(prepared, time, workload.unit, ids)
            spool.write(json.dumps(record, allow_nan=False).encode() + b"\n")
        for name, starts in places.items():
            yield _session(name, [_at(spool, start) for start in starts], workload.unit)


def _session(name: str, requests: list[dict[str, Any]], unit: Unit) -> dict[str, Any]:
    return {
        "id": name,
        "models": sorted({request["model"] for request in requests if "model" in request}),
        "block_size": unit.block_tokens,
        "hash_id_scope": "global",
        "requests": requests,
    }


def _record(prepared: PreparedRequest, time: float, unit: Unit, ids: SaltedIds) -> dict[str, Any]:
    """The rest of a text that fills no block has no id, as is usual in this form."""
    request, recorded = prepared.request, prepared.request.recorded
    blocks = ids.blocks(prepared, unit)
    if unit.tokens_per_symbol == 1:
        del blocks[prepared.num_tokens // unit.block_size :]
    own = own_fields(request, ids) | {"id": ids.name("request", request.id)}
    return {
        "t": time,
        **known(model=request.model, ttft=recorded.ttft_s, api_time=recorded.duration_s),
        "in": prepared.num_tokens,
        "out": prepared.num_output_tokens,
        "hash_ids": blocks,
        OWN: own | ({} if request.session is not None else {"alone": True}),
    }


def _session_of(prepared: PreparedRequest, ids: SaltedIds) -> str:
    """A request of no session is one of its own."""
    session, request = prepared.request.session, prepared.request.id
    return ids.name("request", request) if session is None else ids.name("session", session)


def _at(spool: IO[bytes], start: int) -> dict[str, Any]:
    spool.seek(start)
    record: dict[str, Any] = json.loads(spool.readline())
    return record
