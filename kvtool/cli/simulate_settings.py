"""The model that a simulation runs on, if any, and what it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from kvtool.cli.loading import open_runtime
from kvtool.cli.progress import progress
from kvtool.cli.simulate_engine import DEFAULTS, EngineChoice
from kvtool.cli.simulate_options import SimulateRequest
from kvtool.config import EngineConfig
from kvtool.gate.check import DEMO
from kvtool.replay.cost import CostModel
from kvtool.simulation.capacities import in_blocks
from kvtool.simulation.settings import SimulationSettings
from kvtool.traces.prepared import Unit

if TYPE_CHECKING:
    from kvtool.runtime import Runtime

_ON_DISK = ("cache_dir", "cache_size", "durable")


@contextmanager
def runtime_for(request: SimulateRequest, engine: EngineConfig) -> Iterator[Runtime | None]:
    """None without --model. It starts cold, and keeps nothing unless a place for it is named."""
    if engine.model is None:
        yield None
        return
    if request.capacity and engine.kv_blocks is None and engine.kv_memory is None:
        first = request.capacity[0]
        engine = replace(engine, kv_blocks=first.blocks, kv_memory=first.num_bytes)
    keeps = any(getattr(engine, name) != DEFAULTS[name] for name in _ON_DISK)
    engine = replace(
        engine,
        model=None if engine.model == DEMO else engine.model,
        no_cache_dir=not keeps,
        host_memory=engine.host_memory or 0,
    )
    with open_runtime(engine) as runtime:
        yield runtime


def settings_for(
    request: SimulateRequest, choice: EngineChoice, unit: Unit, runtime: Runtime | None
) -> SimulationSettings:
    """Raises `ConfigError` for a capacity in bytes that nothing turns into blocks."""
    bytes_per_token = request.kv_bytes_per_token
    if runtime is not None:
        of_model = runtime.effective["kv_bytes_per_token"]
        assert isinstance(of_model, int)
        bytes_per_token = bytes_per_token or of_model
    capacities = [in_blocks(one, unit, bytes_per_token) for one in request.capacity or ()]
    return SimulationSettings(
        engine=choice.config,
        mode=request.replay,
        output_kv=_caches_replies(request, runtime),
        cost=_cost(request, runtime),
        capacities=tuple(capacities),
        policies=request.policies,
        schemes=request.schemes,
        repair=choice.repair,
        min_run=choice.min_run,
        kv_bytes_per_token=bytes_per_token,
        replies=request.replies,
        verify=request.verify,
        explain=request.explain,
        advice=request.advice,
    )


def _caches_replies(request: SimulateRequest, runtime: Runtime | None) -> bool:
    """A model that runs always does; accounting only where it is asked for."""
    if request.output_kv is not None:
        return request.output_kv
    return runtime is not None and not request.calibrate


def _cost(request: SimulateRequest, runtime: Runtime | None) -> CostModel:
    if request.calibrate:
        assert runtime is not None
        from kvtool.replay.calibrate import calibrate

        with progress("Measuring the rates of the model"):
            return calibrate(runtime.engine, runtime.vocab_size)
    default = CostModel()
    return CostModel(
        prefill_rate=request.prefill_rate or default.prefill_rate,
        decode_rate=request.decode_rate or default.decode_rate,
    )
