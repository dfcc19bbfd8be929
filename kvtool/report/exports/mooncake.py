"""Mooncake's form: one request a line, with a salted id a block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvtool.report.exports.own_fields import check_has_content, known, own_fields
from kvtool.report.exports.salted_ids import SaltedIds
from kvtool.simulation.workload import Workload
from kvtool.traces.own_fields import OWN
from kvtool.traces.prepared import PreparedRequest, Unit

NANOSECONDS = 6  # digits of a millisecond


def records(workload: Workload, ids: SaltedIds) -> Iterator[dict[str, Any]]:
    """Raises `InputError` for a trace of lengths."""
    check_has_content(workload, "mooncake")
    return (_record(prepared, workload.unit, ids) for prepared in workload)


def _record(prepared: PreparedRequest, unit: Unit, ids: SaltedIds) -> dict[str, Any]:
    """As the format wants it, the rest of a text that fills no block has an id too; kvtool drops it
    again (`rest`), since of text only whole blocks are found."""
    request, session = prepared.request, prepared.request.session
    arrival_ms = None if request.arrival_s is None else round(1e3 * request.arrival_s, NANOSECONDS)
    has_rest = unit.tokens_per_symbol == 1 and prepared.num_tokens % unit.block_size > 0
    return {
        **known(
            timestamp=arrival_ms,
            session_id=None if session is None else ids.name("session", session),
            model=request.model,
        ),
        "request_id": ids.name("request", request.id),
        "input_length": prepared.num_tokens,
        "output_length": prepared.num_output_tokens,
        "hash_ids": ids.blocks(prepared, unit),
        "block_size": unit.block_tokens,
        OWN: own_fields(request, ids) | ({"rest": True} if has_rest else {}),
    }
