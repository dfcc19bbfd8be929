"""`replay` and `engine`: what the engine did with the trace."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kvtool.replay.distribution import Distribution
from kvtool.simulation.sections.rates import share
from kvtool.simulation.served_by_model import ModelServing
from kvtool.simulation.simulation import Simulation

PERCENTILES = (50, 90, 99)


def replay(simulation: Simulation) -> dict[str, Any] | None:
    serving, settings = simulation.serving, simulation.settings
    if serving is None:
        return None
    totals, measured = serving.totals, simulation.model is not None
    knows = simulation.workload.trace.kind != "lengths"
    return {
        "engine": "model" if measured else "simulated",
        "mode": settings.mode,
        "capacity_blocks": simulation.pool.num_blocks,
        "capacity_reason": simulation.pool.reason,
        "output_kv": settings.output_kv,
        "requests": totals.requests,
        "prompt_tokens": totals.prompt_tokens,
        "hit_tokens": totals.hit_tokens,
        "cached_tokens": totals.cached_tokens,
        "cached_by_tier": dict(totals.cached_by_tier),
        "shifted_tokens": totals.shifted_tokens,
        "recomputed_tokens": totals.recomputed_tokens,
        "computed_tokens": totals.computed_tokens,
        "in_flight_tokens": totals.in_flight_tokens,
        "output_tokens": totals.output_tokens,
        "hit_rate": share(totals.hit_tokens, totals.prompt_tokens) if knows else None,
        "block_hit_rate": share(totals.hit_blocks, totals.num_blocks) if knows else None,
        "evicted_blocks": totals.evicted_blocks,
        "preemptions": totals.preemptions,
        "peak_held_blocks": totals.peak_held_blocks,
        "duration_s": totals.end_s,
        "clock": "measured" if measured else "virtual",
        "cost": None if measured else asdict(settings.cost),
        "ttft_s": times(totals.ttft_s),
        "queue_s": times(totals.queue_s),
        "occupancy": [point._asdict() for point in serving.occupancy],
    }


def times(found: Distribution, scale: float = 1.0) -> dict[str, float]:
    """Percentiles are right to one per cent."""
    row = {"mean": scale * found.mean}
    return row | {f"p{p}": scale * found.percentile(p) for p in PERCENTILES}


def engine(simulation: Simulation) -> dict[str, Any] | None:
    """Of a replay on a model."""
    model, serving = simulation.model, simulation.serving
    if model is None or serving is None:
        return None
    return {
        "model": model.effective["model"],
        "usage": _usage(model),
        "ttft_ms": times(serving.totals.ttft_s, 1000.0),
        "quality": model.quality,
        "requests": model.rows,
    }


def _usage(model: ModelServing) -> dict[str, int]:
    names = ("prompt", "cached", "shifted", "recomputed", "computed", "completion")
    keys = [f"{name}_tokens" for name in names]
    return {key: sum(row[key] for row in model.rows) for key in keys}
