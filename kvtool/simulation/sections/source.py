"""`input`: what was read."""

from __future__ import annotations

import math
from typing import Any

from kvtool.simulation.simulation import Simulation
from kvtool.simulation.workload import Workload
from kvtool.traces.warnings import of_serial_replay

SHOWN_MODELS = 20


def input_section(simulation: Simulation) -> dict[str, Any]:
    workload, accesses = simulation.workload, simulation.accesses
    trace, rendering = workload.trace, workload.rendering
    models = {request.model for request in trace if request.model is not None}
    sessions = {request.session for request in trace if request.session is not None}
    times = accesses.arrivals
    duration_s = float(times.max() - times.min()) if trace.timed and len(times) else None
    return {
        "format": trace.format.name,
        "title": trace.format.title,
        "why": trace.why,
        "kind": trace.kind,
        "files": [file.name for file in trace.files],
        "requests": len(trace),
        "skipped": sum(trace.skipped.values()),
        "skipped_by_reason": dict(trace.skipped),
        "skipped_places": {
            reason: [str(place) for place in places]
            for reason, places in trace.skipped_places.items()
        },
        "block_size": workload.unit.block_tokens,
        "tokens_per_symbol": workload.unit.tokens_per_symbol,
        "tokenizer": rendering and {"name": rendering.name, "limits": rendering.limits or None},
        "timed": trace.timed,
        "prompt_tokens": accesses.num_tokens,
        "output_tokens": int(accesses.outputs.sum()),
        "blocks": len(accesses),
        "unique_blocks": accesses.num_blocks if trace.kind != "lengths" else None,
        "sessions": len(sessions),
        "models": sorted(models)[:SHOWN_MODELS],
        "duration_s": duration_s if duration_s is None or math.isfinite(duration_s) else None,
        "warnings": warnings_of(simulation),
    }


def warnings_of(simulation: Simulation) -> list[str]:
    """Of the trace, then what makes the figures less than exact."""
    workload = simulation.workload
    serial = simulation.settings.mode == "serial"
    of_replay = of_serial_replay(workload.trace.survey) if serial else ()
    return [*workload.trace.warnings, *of_replay, *_of_rendering(workload)]


def _of_rendering(workload: Workload) -> list[str]:
    limits = workload.rendering.limits if workload.rendering is not None else ""
    return [limits] if limits else []
