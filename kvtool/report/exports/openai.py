"""OpenAI's form: chat requests with their text, one a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvtool.advice.chat_record import chat_record
from kvtool.errors import InputError
from kvtool.report.exports.own_fields import known
from kvtool.report.exports.salted_ids import SaltedIds
from kvtool.simulation.workload import Workload
from kvtool.traces.trace_request import Recorded, TraceRequest

NANOSECONDS = 6  # digits of a millisecond


def records(workload: Workload, ids: SaltedIds) -> Iterator[dict[str, Any]]:
    """With the trace's own ids. Raises `InputError` for a trace without text."""
    if workload.trace.kind != "text":
        raise InputError(
            f"{workload.trace.format.title} has no text, and OpenAI's form is text.",
            hint="Use --export mooncake:OUT.",
        )
    requests = workload.requests or (lambda: iter(workload.trace))
    return (_record(request) for request in requests())


def _record(request: TraceRequest) -> dict[str, Any]:
    """With what the provider counted and measured; `response` also where none was recorded, since
    it tells requests from conversations. A prompt that is no chat is one of a batch."""
    recorded = request.recorded
    record = {"response": {}} | chat_record(request)
    record["response"] = record["response"] | _usage(request)
    record |= known(ttft_s=recorded.ttft_s, duration_ms=_milliseconds(recorded))
    if "prompt" in record:
        record |= {"custom_id": record.pop("id"), "body": {"prompt": record.pop("prompt")}}
    return record


def _usage(request: TraceRequest) -> dict[str, Any]:
    recorded = request.recorded
    usage = dict(
        known(prompt_tokens=recorded.prompt_tokens, completion_tokens=request.output_tokens)
    )
    if recorded.cached_tokens is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": recorded.cached_tokens}
    return {"usage": usage} if usage else {}


def _milliseconds(recorded: Recorded) -> float | None:
    return None if recorded.duration_s is None else round(1e3 * recorded.duration_s, NANOSECONDS)
