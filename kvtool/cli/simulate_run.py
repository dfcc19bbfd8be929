"""A trace from its files to its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kvtool.cli import output
from kvtool.cli.boundary import fail_after_report
from kvtool.cli.loading import logged_warnings
from kvtool.cli.progress import progress
from kvtool.cli.simulate_checks import check_trace
from kvtool.cli.simulate_engine import EngineChoice
from kvtool.cli.simulate_options import SimulateRequest
from kvtool.cli.simulate_outputs import listening, write_outputs
from kvtool.cli.simulate_progress import bar
from kvtool.cli.simulate_rendering import rendering_for
from kvtool.cli.simulate_settings import runtime_for, settings_for
from kvtool.errors import VerificationError
from kvtool.simulation.document import document
from kvtool.simulation.simulate import simulate
from kvtool.simulation.simulation import Simulation
from kvtool.simulation.workload import Workload
from kvtool.traces.open_trace import Trace, open_trace
from kvtool.traces.prepare import unit_of

if TYPE_CHECKING:
    from kvtool.runtime import Runtime


def run_simulation(traces: Sequence[str], request: SimulateRequest, choice: EngineChoice) -> None:
    """Ends with the code of `CacheError` where the cache cannot hold a request, and of
    `VerificationError` where reuse changed logits, both behind the report."""
    trace = _open(traces, request)
    check_trace(trace, request, choice.config)
    with logged_warnings(), runtime_for(request, choice.config) as runtime:
        simulation, found = _simulate(trace, request, choice, runtime)
    _report(simulation, found, request)


def _open(traces: Sequence[str], request: SimulateRequest) -> Trace:
    with progress("Reading the trace"):
        return open_trace(
            traces,
            input_format=request.input_format,
            lenient=request.lenient,
            trace_block_size=request.trace_block_size,
        )


def _simulate(
    trace: Trace, request: SimulateRequest, choice: EngineChoice, runtime: Runtime | None
) -> tuple[Simulation, dict[str, Any]]:
    """Reading the whole trace anew, once a part, so that it need not fit into memory."""
    unit = unit_of(trace, choice.config.block_size)
    settings = settings_for(request, choice, unit, runtime)
    is_text = trace.kind == "text"
    workload = Workload(
        trace=trace,
        unit=unit,
        rendering=rendering_for(request, choice.config, runtime) if is_text else None,
        with_replies=settings.output_kv or choice.config.model is not None,
    )
    model = None if request.calibrate else runtime
    with listening(request, workload) as written, bar("Simulating") as say:
        simulation = simulate(
            workload, settings, model=model, listeners=written.listeners, progress=say
        )
        found = document(simulation)
        write_outputs(simulation, found, request, written)
    return simulation, found


def _report(simulation: Simulation, found: Mapping[str, Any], request: SimulateRequest) -> None:
    for warning in found["input"]["warnings"]:
        output.warn(warning)
    for reason, count in found["input"]["skipped_by_reason"].items():
        places = found["input"]["skipped_places"].get(reason, [])
        more = ", …" if count > len(places) else ""
        where = f" ({'; '.join(places)}{more})" if places else ""
        output.warn(f"{count:,} skipped: {reason}{where}.")
    if request.format == "json":
        output.write_json(found)
    else:
        from kvtool.cli.simulate_view import render

        output.write(render(found))
    if simulation.refused is not None:
        fail_after_report(simulation.refused)
    if simulation.model is not None and (different := simulation.model.num_different):
        fail_after_report(
            VerificationError(
                f"With the cache, {different} of {len(simulation.model.rows)} replies have other "
                "logits than without.",
                hint="Please report it, with the model and the command.",
            )
        )
