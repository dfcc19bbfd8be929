"""`hit_rates`, `curve`, `lru_curve`, `capacity_for`, `stability`: how much can be reused."""

from __future__ import annotations

from typing import Any

from kvtool.analysis.hit_rates import REPORTED_BY
from kvtool.analysis.policy_hits import PolicyHits
from kvtool.simulation.simulation import Analysis
from kvtool.traces.prepared import Unit


def hit_rates(analysis: Analysis) -> dict[str, Any]:
    return {
        name: {**rate._asdict(), "reported_by": list(REPORTED_BY[name])}
        for name, rate in analysis.rates.items()
    }


def curve(analysis: Analysis, unit: Unit, bytes_per_token: int | None) -> list[dict[str, Any]]:
    rows: dict[int, dict[str, Any]] = {
        capacity: {
            "capacity_blocks": capacity,
            "capacity_tokens": capacity * unit.block_tokens,
            "capacity_bytes": bytes_per_token and capacity * unit.block_tokens * bytes_per_token,
        }
        for capacity in analysis.capacities
    }
    for hits in analysis.hits:
        rows[hits.capacity_blocks][hits.policy] = _policy(hits, analysis)
    return list(rows.values())


def _policy(hits: PolicyHits, analysis: Analysis) -> dict[str, float | None]:
    blocks, tokens = len(analysis.accesses), analysis.accesses.num_tokens
    return {
        "block": share(hits.prefix_blocks, blocks),
        "token": share(hits.prefix_tokens, tokens),
        "independent_block": share(hits.independent_blocks, blocks),
        "independent_token": share(hits.independent_tokens, tokens),
    }


def lru_curve(analysis: Analysis) -> list[dict[str, Any]]:
    found, blocks, tokens = analysis.curve, len(analysis.accesses), analysis.accesses.num_tokens
    columns = (found.capacities, found.hit_blocks, found.hit_tokens)
    return [
        {"capacity_blocks": capacity, "block": hit / blocks, "token": hit_tokens / tokens}
        for capacity, hit, hit_tokens in zip(*(column.tolist() for column in columns))
    ]


def stability(analysis: Analysis) -> list[dict[str, Any]]:
    blocks, tokens = len(analysis.accesses), analysis.accesses.num_tokens
    return [
        {
            "order": rates.order,
            "capacities": [
                {"capacity_blocks": c, "block": share(b, blocks), "token": share(t, tokens)}
                for c, b, t in zip(analysis.capacities, rates.hit_blocks, rates.hit_tokens)
            ],
        }
        for rates in analysis.stability
    ]


def share(part: float, whole: float) -> float | None:
    """None where nothing was asked for."""
    return part / whole if whole else None
