"""Whole traces of text with and without a model: the same hits, moves, evictions and blocks.

A random model of one layer, because what it says plays no part: replies are recorded. Its token
ids are those of kvtool's own pieces, so the traces have the tokens that the examples tell of.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tiny
from processes import ROOT
from replay.test_model import Loaded

from kvtool.cache.manager import CacheManager
from kvtool.config import EngineConfig, SchedulerConfig
from kvtool.engine.admission import num_blocks_for
from kvtool.engine.engine import Engine
from kvtool.engine.model_executor import ModelExecutor
from kvtool.models.hf import PagedModel
from kvtool.models.shift_check import prepare_shift
from kvtool.replay.outcome import RequestOutcome
from kvtool.replay.replay import Replay
from kvtool.replay.settings import ReplaySettings
from kvtool.simulation.serving import serve, serve_on_model
from kvtool.simulation.settings import SimulationSettings
from kvtool.simulation.workload import Workload
from kvtool.traces.fallback_tokenizer import FallbackTokenizer
from kvtool.traces.open_trace import open_trace
from kvtool.traces.plain_rendering import PlainRendering
from kvtool.traces.prepare import unit_of

FOLDER = ROOT / "examples" / "traces"
# append by itself fits into every pool that its last prompt fits into: nothing would be evicted.
EXAMPLES: dict[str, tuple[Path, ...]] = {
    "agents": (FOLDER / "agents.jsonl",),
    "append": (FOLDER / "append.jsonl", FOLDER / "truncation.jsonl"),
    "truncation": (FOLDER / "truncation.jsonl",),
    "upload-first": (FOLDER / "upload-first.jsonl",),
}
TRACES = dict(EXAMPLES)
if os.environ.get("KVTOOL_TRACES"):
    recorded = Path(os.environ["KVTOOL_TRACES"], "lmcache")
    TRACES["miniswe"] = (recorded / "miniswe" / "189f0222310bd8eee310f204e91b9c84.jsonl",)
    TRACES["taubench"] = (recorded / "taubench" / "463fc7125362adfaa55a47dbc4ee3faf.jsonl",)

VOCAB_SIZE = 2048
REUSE: dict[str, dict[str, Any]] = {
    "none": {"reuse": "none"},
    "prefix": {"reuse": "prefix"},
    "chain": {"reuse": "prefix", "prefix_index": "chain"},
    "shift": {"reuse": "shift", "repair": "none", "min_run": 32},
    "shift-repaired": {"reuse": "shift", "repair": "first:16", "min_run": 32},
}
SAME_IN_BULK = (
    *("id", "prompt_tokens", "hit_tokens", "cached_tokens", "shifted_tokens", "recomputed_tokens"),
    *("moved", "in_flight_tokens", "output_tokens", "preemptions", "evicted_blocks"),
    *("cached_by_tier", "hit_blocks", "num_blocks"),
)
SAME = (*SAME_IN_BULK, "block_ids")


@cache
def workload(name: str) -> Workload:
    trace = open_trace(TRACES[name])
    return Workload(
        trace=trace,
        unit=unit_of(trace, 16),
        rendering=PlainRendering(FallbackTokenizer()),
        with_replies=True,
    )


@cache
def model() -> PagedModel:
    sizes = {"num_hidden_layers": 1, "max_position_embeddings": 4096, "vocab_size": VOCAB_SIZE}
    paged = PagedModel(tiny.build("llama", **sizes))
    prepare_shift(paged, "rotate")
    return paged


def settings(reuse: str, **options: Any) -> SimulationSettings:
    engine = EngineConfig(max_num_batched_tokens=512, **REUSE[reuse])
    return SimulationSettings(engine=engine, output_kv=True, **options)


def starved(requests: Workload) -> int:
    """Blocks that the largest request takes, and a quarter more."""
    largest = max(len(one.symbols) + max(0, len(one.reply) - 1) for one in requests)
    return num_blocks_for(largest * 5 // 4, requests.unit.block_size)


def rows(outcomes: list[RequestOutcome], fields: tuple[str, ...]) -> list[dict[str, Any]]:
    """In the order of the trace."""
    ordered = sorted(outcomes, key=lambda outcome: outcome.index)
    return [{field: getattr(outcome, field) for field in fields} for outcome in ordered]


def replayed(requests: Workload, how: ReplaySettings, executor: Any = None) -> list[RequestOutcome]:
    outcomes: list[RequestOutcome] = []
    player = Replay(how, on_outcome=outcomes.append, executor=executor)
    player.run(requests)
    player.manager.check_integrity()
    return outcomes


def told(requests: Workload, wanted: SimulationSettings, num_blocks: int) -> list[RequestOutcome]:
    outcomes: list[RequestOutcome] = []
    serve(requests, wanted, num_blocks, on_served=lambda outcome, _: outcomes.append(outcome))
    return outcomes


def measured(
    requests: Workload, wanted: SimulationSettings, num_blocks: int
) -> list[RequestOutcome]:
    executor = ModelExecutor(model(), num_blocks, requests.unit.block_size)
    manager = CacheManager(executor.groups, wanted.cache(requests.unit, num_blocks))
    scheduling = SchedulerConfig(
        max_model_len=model().max_model_len,
        max_num_seqs=wanted.engine.max_num_seqs,
        max_num_batched_tokens=wanted.engine.max_num_batched_tokens,
    )
    loaded = Loaded(Engine(executor, manager, scheduling), VOCAB_SIZE)
    outcomes: list[RequestOutcome] = []
    serve_on_model(
        requests,
        wanted,
        loaded,
        on_served=lambda outcome, _: outcomes.append(outcome),
        block_ids=True,
    )
    manager.check_integrity()
    return outcomes


def stepwise(requests: Workload, wanted: SimulationSettings, num_blocks: int) -> ReplaySettings:
    return replace(wanted.replay(requests.unit, num_blocks, block_ids=True), stepwise=True)


@pytest.mark.parametrize("is_starved", [False, True], ids=["ample", "starved"])
@pytest.mark.parametrize("reuse", ["prefix", "shift"])
@pytest.mark.parametrize("name", TRACES)
def test_one_at_a_time(name: str, reuse: str, is_starved: bool) -> None:
    check(name, reuse, is_starved)


@pytest.mark.parametrize("reuse", ["none", "chain", "shift-repaired"])
def test_one_at_a_time_otherwise(reuse: str) -> None:
    check("truncation", reuse, is_starved=reuse == "chain")


def check(name: str, reuse: str, is_starved: bool) -> None:
    requests, wanted = workload(name), settings(reuse)
    num_blocks = starved(requests) if is_starved else 2000
    real = measured(requests, wanted, num_blocks)
    simulated = replayed(requests, stepwise(requests, wanted, num_blocks))
    assert rows(simulated, SAME) == rows(real, SAME)
    assert rows(told(requests, wanted, num_blocks), SAME_IN_BULK) == rows(real, SAME_IN_BULK)
    assert (sum(outcome.evicted_blocks for outcome in real) > 0) == is_starved
    assert all(outcome.block_ids for outcome in real)
    assert (sum(outcome.hit_tokens for outcome in real) > 0) == (reuse != "none")
    if name in EXAMPLES and not is_starved:  # else what moves may be gone before it comes again
        assert (sum(outcome.shifted_tokens for outcome in real) > 0) == ("shift" in reuse)


@pytest.mark.parametrize("is_starved", [False, True], ids=["ample", "starved"])
@pytest.mark.parametrize("reuse", ["prefix", "shift"])
def test_by_arrival(reuse: str, is_starved: bool) -> None:
    """Requests in flight together, under one clock; told in bulk, computed token by token."""
    requests, wanted = workload("append"), settings(reuse, mode="arrival")
    num_blocks = starved(requests) if is_starved else 2000
    how = stepwise(requests, wanted, num_blocks)
    executor = ModelExecutor(model(), num_blocks, requests.unit.block_size)
    real, simulated = replayed(requests, how, executor), replayed(requests, how)
    assert simulated == real
    assert rows(told(requests, wanted, num_blocks), SAME_IN_BULK) == rows(real, SAME_IN_BULK)
    assert (sum(outcome.evicted_blocks for outcome in real) > 0) == is_starved
