"""The engine over tiers: failures, late copies, preemption, isolation, deterministic mode."""

from __future__ import annotations

from functools import partial
from threading import Timer
from typing import Any

import numpy as np
import pytest
from engine.toy_engine import toy_request
from tiers.fakes import DictTier, FailingTier, GatedTier
from tiers.tiered_engine import logits_of, prompt, tiered_engine

from kvtool.engine.engine import Engine
from kvtool.tiers.host import HostTier
from kvtool.tiers.rates import Rates
from kvtool.tiers.tier import Missing

CLOSE = 1e-4


def disk(tier: type[DictTier] = DictTier) -> Any:
    return partial(tier, "disk")


def host(num_bytes: int = 1 << 22) -> Any:
    return partial(HostTier, num_bytes)


@pytest.mark.report("S44")
@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("error", [Missing, OSError])
@pytest.mark.parametrize("layer", range(2))
def test_a_load_that_fails_at_any_layer_is_computed(
    layer: int, error: type[Exception], staged: bool
) -> None:
    tiered = tiered_engine(disk(FailingTier), staged=staged)
    cold = tiered.reply(prompt(30))
    tiered.forget_pool()
    tier = tiered.tiers.tiers[0]
    assert isinstance(tier, FailingTier)
    tier.fails_at, tier.error = layer, error
    again = tiered.reply(prompt(30))
    assert again.num_cached_tokens == 0 and again.cached_by_tier == {}
    assert np.array_equal(logits_of(again), logits_of(cold))
    assert tiered.engine.metrics.failed_loads == 1
    assert tier.calls.count("get") == 1
    tier.fails_at = None
    other = tiered.reply(prompt(22, seed=3))
    assert np.array_equal(logits_of(other), logits_of(tiered_engine().reply(prompt(22, seed=3))))


def test_a_failed_load_costs_the_others_of_its_step_nothing_but_time() -> None:
    tiered = tiered_engine(disk(FailingTier))
    tiered.reply(prompt(30))
    tiered.forget_pool()
    tier = tiered.tiers.tiers[0]
    assert isinstance(tier, FailingTier)
    tier.fails_at = 1
    requests = [toy_request(prompt(n, seed=s), 6) for n, s in [(21, 5), (30, 0), (9, 7)]]
    tiered.run(*requests)
    for request in requests:
        alone = tiered_engine().reply(request.prompt_ids.tolist(), 6)
        assert request.output_ids == alone.output_ids


@pytest.mark.report("S52")
def test_a_slot_is_not_reissued_while_a_late_load_may_write_to_it() -> None:
    """The other tier fails at once, the step is given up, this one is still reading."""
    tiered = tiered_engine(partial(GatedTier, "host"), disk(FailingTier), num_blocks=24)
    tiered.reply(prompt(30), 1)
    tiered.forget_pool()
    gated, failing = tiered.tiers.tiers
    assert isinstance(gated, GatedTier) and isinstance(failing, FailingTier)
    for key in list(gated.kept)[3:]:
        del gated.kept[key]
    failing.fails_at = 0
    gated.gate.clear()
    gated.reached.clear()
    request = toy_request(prompt(30), 4)
    tiered.engine.add(request)
    assert tiered.engine.step() == [] and gated.reached.wait(10)
    held = tiered.engine.manager.num_blocks - tiered.engine.manager.num_available_blocks
    assert held == 8, "the blocks of the load that was given up"
    other = toy_request(prompt(20, seed=4), 4)
    tiered.engine.add(other)
    gated.gate.set()
    tiered.run()
    for done in (request, other):
        assert done.output_ids == tiered_engine().reply(done.prompt_ids.tolist()).output_ids


@pytest.mark.report("S52")
def test_allocation_waits_for_copies_before_it_gives_up() -> None:
    """All blocks are held by saves; nobody else runs, so nobody can be preempted."""
    tiered = tiered_engine(partial(GatedTier, "disk"), num_blocks=8)
    gated = tiered.tiers.tiers[0]
    assert isinstance(gated, GatedTier)
    gated.gate.clear()
    first, second = toy_request(prompt(29), 1), toy_request(prompt(30, seed=2), 2)
    tiered.run(first)
    manager = tiered.engine.manager
    assert manager.num_available_blocks == 0
    tiered.engine.add(second)
    opener = Timer(0.05, gated.gate.set)
    opener.start()
    tiered.run()
    opener.join()
    assert second.output_ids == tiered_engine().reply(prompt(30, seed=2), 2).output_ids


@pytest.mark.report("S26", "S29")
@pytest.mark.parametrize("tier", [host(), disk()], ids=["host", "disk"])
@pytest.mark.parametrize("seed", range(3))
def test_preempted_requests_go_on_from_where_they_were(tier: Any, seed: int) -> None:
    tiered = tiered_engine(tier, num_blocks=13, watermark=0.0)
    lengths = [(17, 20), (9, 24), (23, 16)]
    requests = [toy_request(prompt(n, seed + i), reply) for i, (n, reply) in enumerate(lengths)]
    tiered.run(*requests)
    assert 0 < tiered.engine.metrics.preemptions < 20
    assert tiered.engine.manager.stats.loaded_tokens > 0
    for request in requests:
        alone = tiered_engine().reply(request.prompt_ids.tolist(), request.sampling.max_tokens)
        assert request.output_ids == alone.output_ids


@pytest.mark.report("S28")
def test_requests_leave_no_references() -> None:
    tiered = tiered_engine(host(), num_blocks=10)
    for seed in range(50):
        tiered.reply(prompt(5 + seed % 20, seed=seed % 7), 2)
        tiered.engine.manager.release_ended_transfers()
        assert tiered.engine.manager.num_available_blocks == 10
    assert tiered.engine.manager.stats.evicted_blocks > 0


@pytest.mark.report("S65", "S68")
@pytest.mark.parametrize("tier", [host(), disk()], ids=["host", "disk"])
def test_tenants_share_nothing_below_the_pool(tier: Any) -> None:
    tiered = tiered_engine(tier)
    tiered.reply(prompt(30), 1, namespace=b"a")
    tiered.forget_pool()
    assert tiered.reply(prompt(30), 1, namespace=b"b").num_cached_tokens == 0
    tiered.forget_pool()
    hit = tiered.reply(prompt(30), 1, namespace=b"a")
    assert sum(hit.cached_by_tier.values()) == hit.num_cached_tokens == 29


def test_without_reuse_no_tier_is_asked_and_nothing_saved() -> None:
    tiered = tiered_engine(disk())
    tiered.reply(prompt(30), reuse=False)
    assert tiered.tiers.tiers[0].calls == []


@pytest.mark.parametrize("length", [7, 8, 9, 17, 24, 40])
@pytest.mark.parametrize("num_tiers", [1, 2])
def test_deterministic_logits_are_bit_identical_from_tiers(length: int, num_tiers: int) -> None:
    options = {"deterministic": True, "deterministic_chunk": 8, "max_num_batched_tokens": 64}
    tiered = tiered_engine(*[host(), disk()][:num_tiers], **options)
    cold = tiered.reply(prompt(length), 5)
    tiered.forget_pool()
    warm = tiered.reply(prompt(length), 5)
    assert warm.num_cached_tokens == (length - 1) // 8 * 8
    assert set(warm.cached_by_tier) <= {"host"}
    assert np.array_equal(logits_of(cold), logits_of(warm))
    tiered.forget_pool()
    turn = [*cold.tokens.tolist(), *prompt(5, seed=9)]
    warm, cold = tiered.reply(turn), tiered_engine(**options).reply(turn)
    assert warm.num_cached_tokens == length // 8 * 8, "a reply is not what a prefill computes"
    assert np.array_equal(logits_of(cold), logits_of(warm))


def test_a_full_hit_computes_one_token_and_stores_none() -> None:
    tiered = tiered_engine(disk())
    cold = tiered.reply(prompt(32), 4)
    tiered.forget_pool()
    engine = tiered.engine
    steps: list[Any] = []
    execute = engine.executor.execute
    engine.executor.execute = lambda batch: steps.append(batch) or execute(batch)  # type: ignore[method-assign,func-returns-value]
    warm = tiered.reply(prompt(32), 4)
    first = steps[0].requests[0]
    assert first.num_tokens == 1 and first.slots[0].tolist() == [-1]
    assert warm.cached_by_tier == {"disk": 31}
    assert warm.output_ids == cold.output_ids
    assert engine.manager.stats.full_hit_recomputed == 1


def test_a_chunked_prompt_is_saved_while_it_is_computed() -> None:
    tiered = tiered_engine(disk(), block_size=1, max_num_batched_tokens=20, num_blocks=128)
    tiered.engine.add(request := toy_request(prompt(50), 1))
    tiered.engine.step()
    assert tiered.tiers.flush(10) and [len(run.keys) for run in tiered.tiers.tiers[0].runs] == [20]
    tiered.run()
    assert request.is_finished and tiered.tiers.flush(10)
    runs = tiered.tiers.tiers[0].runs
    assert [(run.home, len(run.keys)) for run in runs] == [(0, 20), (20, 20), (40, 10)]


@pytest.mark.parametrize(("rate", "hit"), [(1e12, 29), (1.0, 0)])
def test_loads_slower_than_computing_are_skipped(rate: float, hit: int) -> None:
    rates = Rates.from_dict({"disk": rate, "compute": 1000.0})
    tiered = tiered_engine(disk(), rates=rates)
    tiered.reply(prompt(30), 1)
    tiered.forget_pool()
    assert tiered.reply(prompt(30), 1).num_cached_tokens == hit
    row = tiered.tiers.report()[0]
    assert (row["loaded_blocks"], row["skipped_blocks"]) == ((8, 0) if hit else (0, 8))


def test_steps_with_enough_tokens_are_measured() -> None:
    tiered = tiered_engine(disk())
    tiered.reply(prompt(40))
    assert tiered.tiers.rates.compute_rate is None
    tiered.reply(prompt(100, seed=1))
    assert tiered.tiers.rates.compute_rate is not None


def test_a_request_that_waits_for_room_asks_no_tier() -> None:
    tiered = tiered_engine(disk(), num_blocks=12)
    tiered.engine.add(toy_request(prompt(30), 12))
    tiered.engine.step()
    calls = tiered.tiers.tiers[0].calls
    calls.clear()
    tiered.engine.add(toy_request(prompt(30, seed=5), 4))
    for _ in range(5):
        tiered.engine.step()
    assert not {"contains", "extend"} & set(calls)
    tiered.run()
    assert calls.count("contains") == 1


def test_an_interrupted_step_saves_nothing_of_itself() -> None:
    tiered = tiered_engine(disk())
    engine: Engine = tiered.engine
    execute = engine.executor.execute

    def interrupt(batch: Any) -> Any:
        execute(batch)
        raise KeyboardInterrupt

    engine.executor.execute = interrupt  # type: ignore[method-assign]
    engine.add(request := toy_request(prompt(30), 2))
    with pytest.raises(KeyboardInterrupt):
        engine.step()
    tiered.tiers.flush(10)
    assert not tiered.tiers.tiers[0].kept
    engine.executor.execute = execute  # type: ignore[method-assign]
    tiered.run()
    assert request.output_ids == tiered_engine().reply(prompt(30), 2).output_ids


def test_a_load_whose_step_never_ran_ends() -> None:
    """The executor is interrupted before it starts to load."""
    tiered = tiered_engine(disk())
    tiered.reply(prompt(30), 1)
    tiered.forget_pool()
    engine = tiered.engine
    batch_loads = []
    execute = engine.executor.execute

    def interrupt(batch: Any) -> Any:
        batch_loads.extend(batch.loads)
        raise KeyboardInterrupt

    engine.executor.execute = interrupt  # type: ignore[method-assign]
    engine.add(request := toy_request(prompt(30), 2))
    with pytest.raises(KeyboardInterrupt):
        engine.step()
    assert [load.has_ended for load in batch_loads] == [True]
    assert engine.manager.num_available_blocks == engine.manager.num_blocks
    engine.executor.execute = execute  # type: ignore[method-assign]
    tiered.run()
    assert request.cached_by_tier == {"disk": 29}
