"""What `simulate-agent` writes to files while it runs and behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvtool.cli.simulate_files import row_writer, whole_file
from kvtool.cli.simulate_options import SimulateRequest
from kvtool.simulation.simulate import Listeners
from kvtool.simulation.simulation import Simulation
from kvtool.simulation.workload import Workload

if TYPE_CHECKING:
    from kvtool.report.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Written:
    """Files that are written as the replay goes on."""

    listeners: Listeners
    timeline: Timeline | None


@contextmanager
def listening(request: SimulateRequest, workload: Workload) -> Iterator[Written]:
    """They take their names when all has gone well."""
    with ExitStack() as files:
        rows = files.enter_context(row_writer("--requests", request.requests))
        timeline = None
        if request.timeline is not None:
            from kvtool.report.timeline import Timeline

            path = files.enter_context(whole_file("--timeline", request.timeline))
            timeline = Timeline(path, workload.unit)
        listeners = Listeners(
            on_served=timeline.add if timeline is not None else None,
            block_ids=timeline is not None,
            on_row=rows,
        )
        yield Written(listeners, timeline)


def write_outputs(
    simulation: Simulation, found: dict[str, Any], request: SimulateRequest, written: Written
) -> None:
    """Into `found`: what was written where; the report page is made from all of it."""
    outputs = found["outputs"]
    if request.requests is not None:
        count = 0 if simulation.serving is None else len(simulation.serving.served)
        outputs["requests"] = {"path": request.requests, "requests": count}
    if written.timeline is not None:
        occupancy = simulation.serving.occupancy if simulation.serving is not None else []
        assert request.timeline is not None
        outputs["timeline"] = {
            "path": request.timeline,
            "events": written.timeline.close(occupancy),
        }
    if request.apply is not None:
        found["applied"] = _apply(simulation, request.apply)
        outputs["apply"] = {"path": request.apply}
    if request.export:
        outputs["export"] = _exports(simulation, request)
    if request.report is not None:
        outputs["report"] = {"path": request.report}
        from kvtool.report.html import write_report

        with whole_file("--report", request.report) as path:
            write_report(found, path)


def _apply(simulation: Simulation, to: str) -> dict[str, Any]:
    from kvtool.advice.apply import write_rewritten

    with whole_file("--apply", to) as path:
        applied = write_rewritten(simulation.workload, simulation.advice, path)
    return {**applied, "path": to}


def _exports(simulation: Simulation, request: SimulateRequest) -> list[dict[str, Any]]:
    from kvtool.report.exports.export import export

    rows = []
    for wanted in request.export or ():
        with whole_file(f"--export {wanted.format}", wanted.path) as path:
            count = export(wanted.format, simulation.workload, path)
        rows.append({"format": wanted.format, "path": wanted.path, "requests": count})
    return rows
