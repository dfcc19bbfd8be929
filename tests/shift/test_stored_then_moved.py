"""A prompt that begins with stored text, to be loaded, and goes on with moved text."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from shift.shift_engine import logits_of, movable, reply, shift_engine, text
from tiers.fakes import DictTier, FailingTier

from kvtool.cache.manager import CacheManager
from kvtool.engine.engine import Engine
from kvtool.models.pool_memory import PoolMemory
from kvtool.tiers.rates import Rates
from kvtool.tiers.stack import Tiers

CHUNK = text(60, seed=1)
DONOR = text(16, seed=2) + CHUNK + text(5, seed=3)
START = text(40, seed=4)
TARGET = START + CHUNK + text(7, seed=5)


def with_tiers(engine: Engine, *tiers: DictTier) -> Tiers:
    """The same engine, its cache empty and above tiers."""
    model, config = engine.executor.model, engine.manager.config
    below = Tiers(list(tiers), PoolMemory(model, config.block_size), Rates())
    engine.executor.loader = below
    engine.manager = CacheManager(model.groups, config, backing=below)
    engine.scheduler = type(engine.scheduler)(engine.manager, engine.scheduler.config)
    return below


def store(engine: Engine, tiers: Tiers) -> None:
    """START is in the tiers alone, the donor in the pool as well."""
    reply(engine, START, 1)
    assert tiers.flush(10)
    engine.manager.release_ended_transfers()
    engine.manager.clear()
    for pool in engine.executor.model.pools:
        pool.fill_(float("nan"))
    reply(engine, DONOR)


@pytest.mark.parametrize(
    ("name", "repair", "block_size", "budget"),
    [
        ("gemma3_text", "attn:0.2", 3, 7),  # loads end within a block that moved text goes on in
        ("deepseek_v3", "vdev:0.2", 16, 256),
        ("llama", "kdev:0.5", 3, 256),
        ("llama", "attn:0.2", 1, 256),
        ("llama", "first:13", 16, 7),
        ("gemma3_text", "none", 3, 256),
    ],
)
def test_loading_before_a_run_is_a_hit_in_the_pool(
    name: str, repair: str, block_size: int, budget: int
) -> None:
    model = movable(name)
    make = partial(
        shift_engine,
        model,
        block_size=block_size,
        num_blocks=400,
        cache={"repair": repair},
        max_num_batched_tokens=budget,
    )
    pooled: Engine = make()
    reply(pooled, START, 1)
    reply(pooled, DONOR)
    expected = reply(pooled, TARGET)
    engine: Engine = make()
    tier = DictTier("disk", model.groups, block_size)
    tiers = with_tiers(engine, tier)
    store(engine, tiers)
    request = reply(engine, TARGET)
    assert request.usage == expected.usage and request.usage.cached_tokens == 40
    assert request.cached_by_tier == {"disk": 40}
    assert request.is_approximate and request.usage.shifted_tokens > 0
    np.testing.assert_allclose(logits_of(request), logits_of(expected), rtol=0, atol=1e-5)
    exact = reply(engine, TARGET, shift=False)
    cold = reply(engine, TARGET, reuse=False)
    assert exact.output_ids == cold.output_ids
    np.testing.assert_allclose(logits_of(exact), logits_of(cold), rtol=0, atol=1e-4)
    assert tiers.flush(10)
    engine.manager.release_ended_transfers()
    engine.manager.clear()
    assert engine.manager.num_free_blocks == 400


@pytest.mark.parametrize("repair", ["none", "attn:0.2", "vdev:0.2"])
def test_a_failing_load_before_a_run_is_computed_instead(repair: str) -> None:
    model: Any = movable("llama")
    engine = shift_engine(model, cache={"repair": repair})
    tier = FailingTier("disk", model.groups, 4)
    store(engine, with_tiers(engine, tier))
    tier.fails_at = 1
    request = reply(engine, TARGET)
    assert engine.metrics.failed_loads == 1
    assert request.usage.cached_tokens == 0 and request.usage.shifted_tokens > 0
    assert np.isfinite(logits_of(request)).all()
