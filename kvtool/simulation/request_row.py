"""A line of `--requests`: one request of the replay."""

from __future__ import annotations

from typing import Any

from kvtool.analysis.served import Served
from kvtool.traces.trace_request import TraceRequest


def request_row(request: TraceRequest, served: Served) -> dict[str, Any]:
    """JSON-able; its causes are added where content is known. Cached, shifted, recomputed and computed
    tokens are the prompt: a cached one that is computed all the same is no `cached` one."""
    reused = served.shifted_tokens + served.recomputed_tokens
    return {
        "id": request.id,
        "place": str(request.place),
        "session": request.session,
        "arrival_s": served.arrival_s,
        "queue_s": served.start_s - served.arrival_s,
        "ttft_s": served.ttft_s,
        "total_s": served.end_s - served.arrival_s,
        "prompt_tokens": served.prompt_tokens,
        "hit_tokens": served.hit_tokens,
        "cached_tokens": served.prompt_tokens - reused - served.computed_tokens,
        "shifted_tokens": served.shifted_tokens,
        "recomputed_tokens": served.recomputed_tokens,
        "computed_tokens": served.computed_tokens,
        "missed_tokens": served.missed_tokens,
        "in_flight_tokens": served.in_flight_tokens,
        "output_tokens": served.output_tokens,
        "evicted_blocks": served.evicted_blocks,
        "preemptions": served.preemptions,
        "recorded_cached_tokens": request.recorded.cached_tokens,
    }
