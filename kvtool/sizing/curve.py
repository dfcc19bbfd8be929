"""Points of size against tokens for one GPU, at one batch."""

from __future__ import annotations

from dataclasses import replace

from kvtool.sizing.calculate import as_requested
from kvtool.sizing.capacity import rank_bytes
from kvtool.sizing.chart import Curve
from kvtool.sizing.formats import kv_format
from kvtool.sizing.model_spec import ModelSpec
from kvtool.sizing.parallel import stages, tokens_on_rank
from kvtool.sizing.report import SizeReport
from kvtool.sizing.request import SizeRequest

NUM_POINTS = 128


def size_curve(model: ModelSpec, request: SizeRequest, report: SizeReport) -> Curve:
    """Up to the asked length, and past the point where the memory is full if there is one."""
    limit = report.memory["kv_bytes"] if report.memory else None
    last = max(request.tokens, 2)
    if report.max_tokens:
        last = max(last, report.max_tokens * 5 // 4)
    ranks, fmt = stages(as_requested(model, request), request.ranks), kv_format(request.kv_dtype)
    points = []
    for step in range(NUM_POINTS + 1):
        tokens = max(1, last * step // NUM_POINTS)
        own = tokens_on_rank(tokens, request.ranks)
        shared = min(request.prefix_share // request.cp, own)
        load = replace(request.load, tokens=own, shared=shared)
        points.append((tokens, rank_bytes(ranks, fmt, load)))
    sequences = f"{request.batch} sequence" + ("s" if request.batch > 1 else "")
    title = f"KV cache of {report.model['name']}: {sequences}, {fmt.name}, one GPU"
    return Curve(title=title, points=tuple(points), limit=limit, end=report.max_tokens)
