"""When a request is done, seen from its token ids (stop strings: see `kvtool.engine.output`)."""

from __future__ import annotations

from kvtool.engine.request import Request


def finish_reason(request: Request) -> str | None:
    """eos | length, or None while it goes on. Looks at the last output token."""
    sampling = request.sampling
    last_id = int(request.tokens[-1])
    if last_id in sampling.stop_ids and not sampling.ignore_eos:
        return "eos"
    if request.num_output_tokens >= sampling.max_tokens:
        return "length"
    return None
