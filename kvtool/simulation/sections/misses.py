"""`misses` and `sessions`: what was not found, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvtool.analysis.causes import CAUSES
from kvtool.simulation.misses import Misses, Tally
from kvtool.simulation.sections.rates import share
from kvtool.simulation.simulation import Simulation

_TOP_KEYS = ("id", "place", "session", "missed_tokens", "prompt_tokens", "causes")


def misses(found: Misses) -> dict[str, Any]:
    return {
        "total_tokens": found.total_tokens,
        "causes": {name: found.causes[name] for name in CAUSES},
        "definitions": dict(CAUSES),
        "recoverable_by_shift_tokens": found.recoverable_by_shift_tokens,
        "over_time": [_period(period) for period in found.periods.values()],
        "top_requests": [
            {key: row[key] for key in _TOP_KEYS} for _, _, row in sorted(found.top, reverse=True)
        ],
    }


def _period(period: Tally) -> dict[str, Any]:
    return {
        "from_request": period.first,
        "requests": period.requests,
        "t_s": period.t_s,
        "hit_tokens": period.hit_tokens,
        "causes": _known(period.causes),
    }


def sessions(simulation: Simulation) -> list[dict[str, Any]]:
    """Those that computed most first."""
    found = simulation.misses.sessions if simulation.misses is not None else {}
    rows = [
        {
            "session": name,
            "requests": tally.requests,
            "prompt_tokens": tally.prompt_tokens,
            "hit_tokens": tally.hit_tokens,
            "hit_rate": share(tally.hit_tokens, tally.prompt_tokens),
            "missed_by_cause": _known(tally.causes),
            "recomputed_tokens": tally.recomputed_tokens,
            "computed_tokens": tally.computed_tokens,
        }
        for name, tally in found.items()
    ]
    return sorted(rows, key=lambda row: -row["computed_tokens"])


def _known(causes: Mapping[str, int]) -> dict[str, int]:
    return {name: causes[name] for name in CAUSES if causes.get(name)}
