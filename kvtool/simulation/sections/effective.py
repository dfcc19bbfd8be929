"""`effective`: the value of each option in this run; null where it means nothing."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from kvtool.config import SHIFT_OPTIONS, EngineConfig
from kvtool.simulation.simulation import Simulation

# What accounting has in common with an engine that runs.
ACCOUNTED = (
    *("max_num_seqs", "max_num_batched_tokens", "prefix_index", "reuse", "evict"),
    *("donor", "repair", "min_run"),
)


def effective(simulation: Simulation) -> dict[str, Any]:
    settings, model = simulation.settings, simulation.model
    trace = simulation.workload.trace
    engine = dict(model.effective) if model is not None else _accounted(simulation)
    return {
        **engine,
        "input_format": trace.format.name,
        "lenient": trace.lenient,
        "trace_block_size": trace.block_size,
        "replay": settings.mode,
        "output_kv": settings.output_kv,
        "capacity": list(simulation.analysis.capacities) if simulation.analysis else None,
        "policies": list(settings.policies),
        "schemes": list(settings.schemes),
        "scheme_repair": settings.repair,
        "scheme_min_run": settings.min_run,
        "kv_bytes_per_token": settings.kv_bytes_per_token,
        "prefill_rate": settings.cost.prefill_rate if model is None else None,
        "decode_rate": settings.cost.decode_rate if model is None else None,
        "replies": settings.replies if model is not None else "recorded",
        "verify": settings.verify,
        "advice": settings.advice,
    }


def _accounted(simulation: Simulation) -> dict[str, Any]:
    options = asdict(simulation.settings.engine)
    known = {name: options[name] for name in ACCOUNTED}
    if known["reuse"] != "shift":
        known |= {name: None for name in SHIFT_OPTIONS if name in known}
    known["kv_blocks"] = simulation.pool.num_blocks
    known["block_size"] = simulation.workload.unit.block_tokens
    return {field.name: known.get(field.name) for field in fields(EngineConfig)}
