"""Which requests of a trace may share KV."""

from __future__ import annotations

import json

from kvtool.traces.trace_request import TraceRequest


def namespace_of(request: TraceRequest) -> bytes:
    """Equal where model, adapter and salt are equal; absent differs from empty."""
    return json.dumps([request.model, request.adapter, request.salt]).encode()
