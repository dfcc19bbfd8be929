"""The document of a small simulation, as `simulate-agent --format json` writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kvtool.simulation.document import document
from kvtool.simulation.settings import SimulationSettings
from kvtool.simulation.simulate import simulate
from kvtool.simulation.simulation import Simulation
from kvtool.simulation.workload import Workload
from kvtool.traces.fallback_tokenizer import FallbackTokenizer
from kvtool.traces.open_trace import open_trace
from kvtool.traces.plain_rendering import PlainRendering
from kvtool.traces.prepare import unit_of

TRACES = Path(__file__).parent.parent.parent / "examples" / "traces"
EXAMPLES = ("append", "truncation", "upload-first", "agents")


def simulated(path: Path, *, block_size: int = 16, **settings: Any) -> Simulation:
    trace = open_trace([path], trace_block_size=512)
    rendering = PlainRendering(FallbackTokenizer()) if trace.kind == "text" else None
    workload = Workload(
        trace=trace,
        unit=unit_of(trace, block_size),
        rendering=rendering,
        with_replies=settings.get("output_kv", False),
    )
    return simulate(workload, SimulationSettings(**settings))


def example(kind: str = "text", folder: Path | None = None) -> dict[str, Any]:
    """kind: text, or blocks: hash ids, for which `folder` gets a file."""
    if kind == "text":
        return document(simulated(TRACES / "agents.jsonl"))
    assert folder is not None
    return document(simulated(write_blocks(folder / "blocks.jsonl"), capacities=(6, 9)))


def write_blocks(path: Path) -> Path:
    """Three conversations that share a head and take turns; the last one is cut short."""
    heads = {"a": [1, 2, 3], "b": [1, 2, 4, 5], "c": [1, 6]}
    rows = []
    for turn in range(3):
        for number, (session, head) in enumerate(heads.items()):
            ids = head + [100 * (number + 1) + step for step in range(turn)]
            rows.append(
                {
                    "timestamp": 1000 * len(rows),
                    "session_id": session,
                    "input_length": 512 * len(ids) - (12 if len(rows) == 8 else 0),
                    "output_length": 20,
                    "hash_ids": ids,
                }
            )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
