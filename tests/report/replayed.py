"""Simulations of small traces, as the command runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvtool.simulation.settings import SimulationSettings
from kvtool.simulation.simulate import Listeners, simulate
from kvtool.simulation.simulation import Simulation
from kvtool.simulation.workload import Workload
from kvtool.traces.fallback_tokenizer import FallbackTokenizer
from kvtool.traces.open_trace import open_trace
from kvtool.traces.plain_rendering import PlainRendering
from kvtool.traces.prepare import unit_of

TRACES = Path(__file__).parent.parent.parent / "examples" / "traces"
EXAMPLES = ("append", "truncation", "upload-first", "agents")


def workload_of(path: Path, *, block_size: int = 16, with_replies: bool = False) -> Workload:
    trace = open_trace([path])
    rendering = PlainRendering(FallbackTokenizer()) if trace.kind == "text" else None
    unit = unit_of(trace, block_size)
    return Workload(trace=trace, unit=unit, rendering=rendering, with_replies=with_replies)


def simulated(path: Path, listeners: Listeners = Listeners(), **settings: Any) -> Simulation:  # noqa: B008 - it is frozen
    workload = workload_of(path, with_replies=settings.get("output_kv", False))
    return simulate(workload, SimulationSettings(**settings), listeners=listeners)
