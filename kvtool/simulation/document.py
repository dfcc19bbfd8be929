"""The one document that people's summary, the report page and `--format json` are made from."""

from __future__ import annotations

from typing import Any

from kvtool.simulation.sections import rates, replay, schemes
from kvtool.simulation.sections.calibration import calibration
from kvtool.simulation.sections.effective import effective
from kvtool.simulation.sections.source import input_section
from kvtool.simulation.simulation import Simulation


def document(simulation: Simulation) -> dict[str, Any]:
    """JSON-able. A part that was not asked for, or that this trace has no answer for, is null or
    empty; `unanswered` says why."""
    bytes_per_token = simulation.settings.kv_bytes_per_token
    found = simulation.calibration
    return {
        "input": input_section(simulation),
        "unanswered": simulation.unanswered,
        **_analysis(simulation, bytes_per_token),
        "memory": schemes.memory(simulation, bytes_per_token),
        "replay": replay.replay(simulation),
        **_explanations(simulation),
        "advice": [one.as_json() for one in simulation.advice],
        "applied": None,
        "calibration": calibration(found) if found is not None else None,
        "engine": replay.engine(simulation),
        "invariants": {check.name: check.holds for check in simulation.checks},
        "invariant_details": {check.name: check.detail for check in simulation.checks},
        "effective": effective(simulation),
        "outputs": {},
    }


def _analysis(simulation: Simulation, bytes_per_token: int | None) -> dict[str, Any]:
    found = simulation.analysis
    if found is None:
        empty = ("curve", "lru_curve", "schemes", "stability", "prefix_tree")
        return {"hit_rates": None, "capacity_for": None, **{name: [] for name in empty}}
    return {
        "hit_rates": rates.hit_rates(found),
        "curve": rates.curve(found, simulation.workload.unit, bytes_per_token),
        "lru_curve": rates.lru_curve(found),
        "capacity_for": found.curve.capacities_for(),
        "schemes": schemes.schemes(found),
        "stability": rates.stability(found),
        "prefix_tree": list(found.prefix_tree),
    }


def _explanations(simulation: Simulation) -> dict[str, Any]:
    if simulation.misses is None:
        return {"misses": None, "sessions": [], "explain": simulation.explanation}
    from kvtool.simulation.sections.misses import misses, sessions

    return {
        "misses": misses(simulation.misses),
        "sessions": sessions(simulation),
        "explain": simulation.explanation,
    }
