"""What the formats without text have no place for, under the field that kvtool reads back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvtool.errors import InputError
from kvtool.report.exports.salted_ids import SaltedIds
from kvtool.simulation.workload import Workload
from kvtool.traces.trace_request import TraceRequest


def own_fields(request: TraceRequest, ids: SaltedIds) -> dict[str, Any]:
    """See `kvtool.traces.own_fields`. Adapter and salt are pseudonyms too."""
    recorded = request.recorded
    return {
        "after": [ids.name("request", other) for other in request.after],
        **known(
            delay_s=request.delay_s or None,
            adapter=request.adapter and ids.name("adapter", request.adapter),
            salt=request.salt and ids.name("salt", request.salt),
            priority=request.priority or None,
            prompt_tokens=recorded.prompt_tokens,
            cached_tokens=recorded.cached_tokens,
        ),
    }


def known(**fields: Any) -> Mapping[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def check_has_content(workload: Workload, format: str) -> None:
    if workload.trace.kind == "lengths":
        raise InputError(
            f"{workload.trace.format.title} has lengths only: there is no content to export as "
            f"{format}."
        )
