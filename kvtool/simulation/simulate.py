"""Runs the parts of a simulation one after another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from kvtool.analysis.accesses import Accesses
from kvtool.analysis.calibration import CacheRecord, calibration
from kvtool.analysis.memory import layouts
from kvtool.errors import CacheError
from kvtool.replay.model import LoadedModel
from kvtool.replay.outcome import RequestOutcome
from kvtool.simulation.analyse import analyse, counted, says
from kvtool.simulation.capacities import Pool, pool
from kvtool.simulation.checks import checks_of
from kvtool.simulation.misses import OnRow
from kvtool.simulation.request_row import request_row
from kvtool.simulation.served_by_model import ModelServing
from kvtool.simulation.serving import OnServed, serve, serve_on_model
from kvtool.simulation.settings import SimulationSettings
from kvtool.simulation.simulation import Progress, Simulation
from kvtool.simulation.workload import Workload
from kvtool.traces.trace_request import TraceRequest

LENGTHS_ONLY = "the trace has lengths only, and whether requests share anything is unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """on_served: gets each outcome of the replay when its request ends, with its block ids where
    `block_ids`. on_row: gets each request's causes, in order."""

    on_served: OnServed | None = None
    block_ids: bool = False
    on_row: OnRow | None = None


def simulate(
    workload: Workload,
    settings: SimulationSettings,
    *,
    model: LoadedModel | None = None,
    listeners: Listeners = Listeners(),
    progress: Progress = lambda part, done, total: None,
) -> Simulation:
    """model: replays on it instead of the virtual clock; text only, and replies are cached.

    A request that the cache can never hold ends the replay, not the analysis: see
    `Simulation.refused`. Raises `InputError` for what is wrong in the trace, `ConfigError` for
    settings that do not go with it, `ModelError` for a model that fails.
    """
    if model is not None:
        settings = replace(settings, output_kv=True)
    settings.replay(workload.unit, 1)  # refuses early
    accesses = Accesses.of(counted(workload, "Reading", progress), workload.unit)
    concurrency = min(settings.engine.max_num_seqs, accesses.num_requests)
    simulation = Simulation(
        workload=workload,
        settings=settings,
        accesses=accesses,
        layouts=layouts(accesses, concurrency),
        concurrency=concurrency,
        pool=_pool(settings, accesses, model),
        unanswered={},
    )
    knows_content = workload.trace.kind != "lengths"
    if knows_content:
        simulation.analysis = analyse(workload, accesses, settings, progress)
    else:
        parts = ("hit_rates", "curve", "lru_curve", "capacity_for", "schemes", "misses", "advice")
        simulation.unanswered = dict.fromkeys(parts, LENGTHS_ONLY)
    _serve(simulation, model, listeners, progress)
    if simulation.serving is not None:
        if knows_content:
            _explain(simulation, listeners, progress)
        elif listeners.on_row is not None:
            for request, served in zip(workload.trace, simulation.serving.served):
                listeners.on_row(request_row(request, served))
    simulation.checks = checks_of(simulation)
    return simulation


def _pool(settings: SimulationSettings, accesses: Accesses, model: LoadedModel | None) -> Pool:
    if model is None:
        return pool(settings, accesses)
    return Pool(model.engine.manager.num_blocks, "the pool of the model's engine")


def _serve(
    simulation: Simulation, model: LoadedModel | None, listeners: Listeners, progress: Progress
) -> None:
    workload, settings = simulation.workload, simulation.settings
    say = says(progress, "Replaying", len(workload))
    try:
        if model is None:
            simulation.serving = serve(
                workload,
                settings,
                simulation.pool.num_blocks,
                on_served=listeners.on_served,
                progress=say,
                block_ids=listeners.block_ids,
            )
            return
        simulation.model = ModelServing(model.effective)
        simulation.serving = serve_on_model(
            workload,
            settings,
            model,
            on_served=_both(simulation.model, listeners.on_served),
            progress=say,
            block_ids=listeners.block_ids,
        )
    except CacheError as error:
        simulation.refused = error if model is not None else _with_size(error, simulation)
        for part in ("replay", "misses", "sessions", "advice", "calibration", "engine"):
            simulation.unanswered.setdefault(part, error.message)


def _with_size(error: CacheError, simulation: Simulation) -> CacheError:
    """The request that did not fit is the first of them, not the largest."""
    settings = simulation.settings.replay(simulation.workload.unit, simulation.pool.num_blocks)
    most = settings.most_blocks(simulation.workload)
    hint = f"Replay with --capacity {most} or more: the largest request takes {most:,} blocks."
    return CacheError(error.message, hint=hint)


def _both(
    model: ModelServing, also: OnServed | None
) -> Callable[[RequestOutcome, TraceRequest], None]:
    def on_served(outcome: RequestOutcome, request: TraceRequest) -> None:
        model.add(outcome)
        if also is not None:
            also(outcome, request)

    return on_served


def _explain(simulation: Simulation, listeners: Listeners, progress: Progress) -> None:
    from kvtool.simulation.misses import cause_settings, find_misses

    workload, settings, serving = simulation.workload, simulation.settings, simulation.serving
    assert serving is not None
    accesses = simulation.accesses
    rules = cause_settings(settings, workload.unit, simulation.pool.num_blocks)
    simulation.misses = find_misses(
        workload,
        serving,
        accesses,
        rules,
        on_row=listeners.on_row,
        progress=says(progress, "Explaining", len(workload)),
    )
    served = serving.served
    hits = np.array([one.hit_tokens for one in served])
    prompts = np.array([one.prompt_tokens for one in served])
    simulation.calibration = calibration(_records(workload), hits, prompts, accesses)
    if simulation.calibration is None:
        simulation.unanswered["calibration"] = "the trace records no cached tokens"
    if settings.explain is not None:
        from kvtool.analysis.explain import explain

        decode = None if workload.rendering is None else workload.rendering.decode
        found = explain(workload, settings.explain, served, accesses, rules, decode)
        simulation.explanation = found.as_json()
    if settings.advice:
        _advise(simulation, progress)


def _records(workload: Workload) -> list[CacheRecord]:
    found = []
    for position, request in enumerate(workload.trace):
        recorded = request.recorded
        if recorded.cached_tokens is not None:
            place = str(request.place)
            found.append(
                CacheRecord(
                    position, request.id, place, recorded.cached_tokens, recorded.prompt_tokens
                )
            )
    return found


def _advise(simulation: Simulation, progress: Progress) -> None:
    from kvtool.advice.advise import advise, not_advised

    assert simulation.serving is not None and simulation.misses is not None
    simulation.advice = advise(
        simulation.workload,
        simulation.settings,
        simulation.pool.num_blocks,
        simulation.serving.totals,
        simulation.misses.causes,
        progress=lambda line: progress(line, 0, 1),
    )
    simulation.unanswered |= not_advised(simulation.workload)
