"""`kvtool simulate-agent`: a trace in, what its cache does and why out. The work is in `simulation`."""

from __future__ import annotations

from typing import Annotated

import typer

from kvtool.cli.option_groups import option_groups
from kvtool.cli.parsers import non_empty
from kvtool.cli.simulate_engine import ENGINE_CHOICE, EngineChoice
from kvtool.cli.simulate_options import REQUEST, TRACE, SimulateRequest

EXAMPLES = (
    "kvtool simulate-agent examples/traces/append.jsonl",
    "kvtool simulate-agent examples/traces/truncation.jsonl --capacity 32,64 --format json",
    "kvtool simulate-agent examples/traces/agents.jsonl --reuse shift --explain planner-2",
    "kvtool simulate-agent examples/traces/upload-first.jsonl --requests requests.jsonl",
    "kvtool simulate-agent examples/traces/append.jsonl --tokenizer demo --replay arrival",
    "kvtool simulate-agent examples/traces/append.jsonl --model demo --no-advice",
)

TraceArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TRACE",
        parser=non_empty,
        help="Files or folders of one format, .gz too; - is stdin.",
        rich_help_panel=TRACE,
    ),
]


@option_groups(request=REQUEST, engine=ENGINE_CHOICE)
def simulate_agent(
    trace: TraceArgument = None, *, request: SimulateRequest, engine: EngineChoice
) -> None:
    """Replay a trace of requests: what hits, why the rest misses, what to change."""
    from kvtool.cli.simulate_checks import check_options  # here, because help needs none of this

    check_options(trace or (), request, engine.config)
    from kvtool.cli.simulate_run import run_simulation

    run_simulation(trace or (), request, engine)
