"""Moved text whose KV lies in the tiers alone: loaded, then used like a donor in the pool."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine.toy_engine import toy_request
from shift.shift_engine import logits_of, movable, reply, shift_engine, text
from shift.test_stored_then_moved import with_tiers
from tiers.fakes import TextTier

from kvtool.engine.engine import Engine
from kvtool.engine.request import Request
from kvtool.tiers.stack import Tiers

CHUNK = text(60, seed=1)
DONOR = text(16, seed=2) + CHUNK + text(5, seed=3)
TARGET = text(23, seed=4) + CHUNK + text(7, seed=5)
LATER = text(41, seed=6) + CHUNK + text(7, seed=7)


def stored(engine: Engine, donor: list[int] = DONOR, **options: Any) -> tuple[TextTier, Tiers]:
    """The donor lies in a tier, and the pool is empty."""
    size = engine.manager.config.block_size
    fake = TextTier("disk", engine.executor.model.groups, size)
    tiers = with_tiers(engine, fake)
    reply(engine, donor, 1, **options)
    forget(engine, tiers)
    return fake, tiers


def forget(engine: Engine, tiers: Tiers) -> None:
    assert tiers.flush(10)
    engine.manager.release_ended_transfers()
    engine.manager.clear()
    assert engine.manager.num_free_blocks == engine.manager.num_blocks
    for pool in engine.executor.model.pools:
        pool.fill_(float("nan"))


def origins(request: Request) -> list[str]:
    return [run.origin for run in request.moved_runs]


@pytest.mark.parametrize(
    ("name", "repair", "block_size", "budget"),
    [
        ("llama", "none", 4, 256),
        ("llama", "first:13", 16, 7),
        ("llama", "kdev:0.5", 3, 256),
        ("llama", "attn:0.2", 1, 256),
        ("gemma3_text", "none", 3, 7),
        ("gemma3_text", "attn:0.2", 4, 7),
        ("deepseek_v3", "vdev:0.2", 16, 256),
        ("deepseek_v3", "first:9", 4, 11),
    ],
)
def test_a_donor_on_disk_is_a_donor_in_the_pool(
    name: str, repair: str, block_size: int, budget: int
) -> None:
    model = movable(name)
    options: dict[str, Any] = {
        "block_size": block_size,
        "num_blocks": 400,
        "cache": {"repair": repair},
        "max_num_batched_tokens": budget,
    }
    pooled: Engine = shift_engine(model, **options)
    reply(pooled, DONOR, 1)
    expected, later_expected = reply(pooled, TARGET), reply(pooled, LATER)
    engine: Engine = shift_engine(model, **options)
    tier, tiers = stored(engine)
    request = reply(engine, TARGET)
    assert origins(request) == ["disk"] and request.is_approximate
    assert request.usage == expected.usage and request.usage.shifted_tokens > 0
    assert request.output_ids == expected.output_ids
    np.testing.assert_allclose(logits_of(request), logits_of(expected), rtol=0, atol=1e-5)
    tier.calls.clear()
    later = reply(engine, LATER)
    assert "get" not in tier.calls, "it serves later requests from the pool"
    assert later.usage == later_expected.usage and origins(later) == ["kept"]
    np.testing.assert_allclose(logits_of(later), logits_of(later_expected), rtol=0, atol=1e-5)
    exact, cold = reply(engine, TARGET, shift=False), reply(engine, TARGET, reuse=False)
    assert exact.output_ids == cold.output_ids
    np.testing.assert_allclose(logits_of(exact), logits_of(cold), rtol=0, atol=1e-4)
    forget(engine, tiers)


def test_nothing_behind_loaded_text_is_stored() -> None:
    engine = shift_engine(movable("llama"))
    tier, tiers = stored(engine)
    known = set(tier.kept)
    request = reply(engine, TARGET, 9)
    assert tiers.flush(10)
    new = [kept.run for key, kept in tier.kept.items() if key not in known]
    assert request.moved_runs[0].start == 23 and request.usage.shifted_tokens == 60
    assert max(run.home + len(run.tokens) for run in new) <= 23


@pytest.mark.parametrize("repair", ["none", "attn:0.2", "vdev:0.2"])
@pytest.mark.parametrize("error", [None, RuntimeError])
def test_what_cannot_be_read_is_computed(repair: str, error: type[Exception] | None) -> None:
    engine = shift_engine(movable("llama"), cache={"repair": repair})
    tier, tiers = stored(engine)
    tier.fails_at, tier.error = 1, error or tier.error
    request, cold = reply(engine, TARGET), reply(engine, TARGET, reuse=False)
    assert engine.metrics.failed_loads == 1
    assert request.usage.shifted_tokens == 0 and request.moved_runs == ()
    assert request.output_ids == cold.output_ids
    np.testing.assert_allclose(logits_of(request), logits_of(cold), rtol=0, atol=1e-4)
    forget(engine, tiers)


def test_another_namespace_and_requests_without_moved_text_load_nothing() -> None:
    engine = shift_engine(movable("llama"))
    tier, _ = stored(engine, namespace=b"mine")
    tier.calls.clear()
    for request in (
        reply(engine, TARGET, namespace=b"theirs"),
        reply(engine, TARGET, namespace=b"mine", shift=False),
        reply(engine, TARGET, namespace=b"mine", reuse=False),
    ):
        assert request.usage.shifted_tokens == 0
    assert "get" not in tier.calls
    assert reply(engine, LATER, namespace=b"mine").usage.shifted_tokens == 60


def test_kv_of_another_text_fails_the_check_of_its_keys() -> None:
    engine = shift_engine(movable("llama"))
    tier, tiers = stored(engine)
    keys = list(tier.kept)
    kv = [tier.kept[key].kv for key in keys]
    for key, wrong in zip(keys, [*kv[3:], *kv[:3]]):
        tier.kept[key] = tier.kept[key]._replace(kv=wrong)
    request, cold = reply(engine, TARGET), reply(engine, TARGET, reuse=False)
    assert engine.manager.stats.refused_runs["layer_0_keys_differ"] > 0
    assert request.usage.shifted_tokens == 0
    assert request.output_ids == cold.output_ids
    forget(engine, tiers)


@pytest.mark.parametrize("num_blocks", [24, 25, 30, 38, 60])
def test_a_pool_that_is_short_of_blocks(num_blocks: int) -> None:
    """24 blocks hold prompt and reply; moved, they take up to one more for each end of the run."""
    engine = shift_engine(movable("llama"), num_blocks=num_blocks)
    _, tiers = stored(engine, donor=[5, 5, *DONOR])
    request = reply(engine, TARGET)
    assert request.usage.shifted_tokens == (60 if num_blocks > 24 else 0)
    forget(engine, tiers)


def test_requests_of_one_step_share_what_is_loaded() -> None:
    engine = shift_engine(movable("llama"), num_blocks=400)
    tier, tiers = stored(engine)
    prompts = [text(11 + 3 * i, seed=20 + i) + CHUNK + text(7, seed=40 + i) for i in range(8)]
    tier.calls.clear()
    requests = [toy_request(prompt, 3, keep_logits=True) for prompt in prompts]
    list(engine.run(requests))
    assert tier.calls.count("get") == 1
    for request in requests:
        forget(engine, tiers)
        alone = reply(engine, request.prompt_ids.tolist())
        assert request.usage.shifted_tokens == alone.usage.shifted_tokens == 60
        np.testing.assert_allclose(logits_of(request), logits_of(alone), rtol=0, atol=1e-5)
    forget(engine, tiers)


def test_a_load_that_fails_takes_those_who_share_it_along() -> None:
    engine = shift_engine(movable("llama"), num_blocks=400)
    tier, tiers = stored(engine)
    tier.fails_at = 1
    requests = [toy_request(prompt, 3, keep_logits=True) for prompt in (TARGET, LATER)]
    list(engine.run(requests))
    assert engine.metrics.failed_loads == 1
    for request in requests:
        cold = reply(engine, request.prompt_ids.tolist(), reuse=False)
        assert request.output_ids == cold.output_ids
        np.testing.assert_allclose(logits_of(request), logits_of(cold), rtol=0, atol=1e-4)
    forget(engine, tiers)


def test_an_exact_beginning_and_moved_text_both_from_a_tier() -> None:
    engine = shift_engine(movable("llama"), num_blocks=200)
    _, tiers = stored(engine)
    reply(engine, TARGET[:23], 1)
    forget(engine, tiers)
    request = reply(engine, TARGET)
    assert request.cached_by_tier == {"disk": 23} and request.usage.shifted_tokens == 60
    forget(engine, tiers)
    cold = reply(engine, TARGET, reuse=False)
    assert np.isfinite(logits_of(request)).all() and np.isfinite(logits_of(cold)).all()
