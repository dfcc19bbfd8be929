"""Means of exact copies: what is in them, when they are made, and what goes first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tiny
import torch
from engine.toy_engine import expected, held_blocks, toy_request
from engine.workloads import interrupt
from shift.shift_engine import logits_of, movable, reply, shift_engine, text
from shift.test_no_laundering import finished, shift_toy_engine

from kvtool.cache.means import MAX_SHARE
from kvtool.cache.section import KEPT
from kvtool.engine.batch import Batch
from kvtool.engine.engine import Engine
from kvtool.engine.simulated import SimulatedExecutor
from kvtool.models.hf import PagedModel
from kvtool.models.shift_check import prepare_shift
from kvtool.reuse.consensus import MAX_MERGED
from kvtool_kernels import rotate, unit_rotation

CHUNK = text(40, seed=1)
HEADERS = [text(length, seed=10 + length) for length in (12, 25, 17, 30, 22)]
TARGET = text(21, seed=3) + CHUNK + text(7, seed=4)
TOY_CHUNK = [1, 2, 3, 4, 0, 4, 3, 1, 1, 2, 0, 3, 2, 2, 4, 1, 0, 0, 3, 4]
TOY_HEADERS = [[0, i, i, 2 - i % 2, i, 3, i, 0, i] for i in range(5)]


def consensus_engine(model: PagedModel, **settings: Any) -> Engine:
    return shift_engine(model, cache={"donor": "consensus", "min_run": 16, **settings})


def remember(engine: Engine, count: int) -> None:
    """Exact copies of the chunk behind so many headers."""
    for header in HEADERS[:count]:
        reply(engine, header + CHUNK, 1, shift=False)


def merged(engine: Engine) -> list[list[int]]:
    """num_merged of every block of every mean."""
    assert engine.manager.shift is not None
    return [np.array(chain.num_merged).tolist() for chain in engine.manager.shift.chains]


@pytest.mark.parametrize("name", ["llama", "cohere", "smollm3", "gemma3_text", "deepseek_v3"])
@pytest.mark.parametrize("count", [2, 4, 5])
def test_is_the_mean_of_the_first_four_copies_turned(name: str, count: int) -> None:
    engine = consensus_engine(movable(name))
    remember(engine, count)
    assert merged(engine) == [[min(count, MAX_MERGED)] * 10]
    _compare_with_mean(engine, min(count, MAX_MERGED), 1e-6)


@pytest.mark.parametrize("name", ["llama", "deepseek_v3"])
def test_in_bfloat16_it_is_rounded_once_a_copy(name: str) -> None:
    model = PagedModel(tiny.build(name, dtype=torch.bfloat16))
    prepare_shift(model)
    engine = consensus_engine(model)
    remember(engine, 4)
    _compare_with_mean(engine, 4, 4e-3)


def _compare_with_mean(engine: Engine, count: int, tolerance: float) -> None:
    """Relative L2 error of every layer."""
    manager, model = engine.manager, engine.executor.model
    (chain,) = manager.shift.chains
    for group, (spec, pool) in enumerate(zip(model.groups, model.pools)):
        for row, layer in enumerate(spec.layers):
            mean = _slots(pool[:, row])[_slot_ids(chain.blocks[group], 0, 40)]
            copies = []
            for header in HEADERS[:count]:
                match = manager.groups[group].match(np.array(header + CHUNK, np.int32), b"")
                slots = _slot_ids(np.array(match.block_ids), len(header), 40)
                copy = _slots(pool[:, row])[slots].float()
                rope = model.paged_layers[layer].rope
                if rope is not None:
                    angles = unit_rotation(torch.tensor(chain.home - len(header)), rope.inv_freq)
                    keys = copy if spec.kind == "latent" else copy[:, 0]
                    keys.copy_(rotate(keys, *angles, rope))
                copies.append(copy.double())
            average = torch.stack(copies).mean(0)
            error = (mean.double() - average).norm() / average.norm()
            assert error <= tolerance, f"layer {layer}"


def _slots(kv_cache: torch.Tensor) -> torch.Tensor:
    return kv_cache.movedim(-2, 1).flatten(0, 1)


def _slot_ids(blocks: np.ndarray, first: int, count: int) -> torch.Tensor:
    slots = (blocks[:, None] * 4 + np.arange(4)).reshape(-1)[first : first + count]
    return torch.from_numpy(slots)


@pytest.mark.parametrize("name", ["llama", "gemma3_text", "deepseek_v3"])
@pytest.mark.parametrize("repair", ["none", "first:8", "attn:0.2"])
def test_serves_requests_that_move_text(name: str, repair: str) -> None:
    """It passes the check of layer 0, is repaired, and is pinned until the request ends."""
    engine = consensus_engine(movable(name), repair=repair)
    remember(engine, 2)
    (chain,) = engine.manager.shift.chains
    request = toy_request(TARGET, 4)
    engine.add(request)
    engine.step()
    pool = engine.manager.groups[0].pool
    assert pool.ref_count[chain.blocks[0][0]] == 2
    while engine.has_work:
        engine.step()
    assert [run.origin for run in request.moved_runs] == [KEPT]
    assert request.usage.shifted_tokens + request.usage.recomputed_tokens == 40
    assert engine.manager.stats.refused_runs == {}
    assert held_blocks(engine) == 0


def test_other_rankings_make_and_use_none() -> None:
    for donor in ("similar", "recent"):
        engine = shift_engine(movable("llama"), cache={"donor": donor})
        remember(engine, 3)
        assert engine.manager.shift.means is None and merged(engine) == []
        assert [run.origin for run in reply(engine, TARGET).moved_runs] == ["pool"]


def test_without_a_mean_it_chooses_like_similar() -> None:
    replies = []
    for donor in ("similar", "consensus"):
        engine = shift_engine(movable("llama"), cache={"donor": donor})
        remember(engine, 1)
        replies.append(reply(engine, TARGET))
    assert replies[0].moved_runs == replies[1].moved_runs
    np.testing.assert_array_equal(*map(logits_of, replies))


def test_exact_requests_never_meet_one() -> None:
    engine = consensus_engine(movable("llama"))
    remember(engine, 4)
    exact = reply(engine, TARGET, shift=False)
    assert exact.usage.cached_tokens == exact.usage.shifted_tokens == 0
    cold = reply(shift_engine(movable("llama")), TARGET, reuse=False)
    np.testing.assert_allclose(logits_of(exact), logits_of(cold), rtol=0, atol=1e-5)


def test_approximate_requests_never_contribute() -> None:
    """What they computed in front of the moved text does."""
    engine = consensus_engine(movable("llama"), min_run=8)
    remember(engine, 2)
    for header in HEADERS[2:]:
        assert reply(engine, header + CHUNK + text(20, 5)).usage.shifted_tokens > 0
    assert merged(engine) == [[2] * 10]
    other = text(16, seed=6)
    assert reply(engine, HEADERS[2][:9] + other + CHUNK).usage.shifted_tokens > 0
    reply(engine, HEADERS[3][:9] + other + text(9, 7), shift=False)
    assert merged(engine) == [[2] * 10, [2] * 4]


def test_a_copy_computed_again_is_no_new_context() -> None:
    engine = consensus_engine(movable("llama"))
    for _ in range(2):
        remember(engine, 2)
        group = engine.manager.groups[0]
        group._evict(group.pool.num_unreferenced)
        assert merged(engine) == [[2] * 10]


def test_merges_keep_no_first_token_waiting() -> None:
    """Not in the step of a prompt; with decodes, and in steps of their own."""
    engine = shift_toy_engine(donor="consensus")
    batches = _recorded(engine)
    first, second = (toy_request(h + TOY_CHUNK, 1, shift=False) for h in TOY_HEADERS[:2])
    decoding, late = toy_request([3] * 5, 9), toy_request([2] * 6, 2)
    finished(engine, first)
    engine.add(decoding)
    engine.step()
    engine.add(second)
    engine.step()
    assert second.is_finished and not any(map(_num_merges, batches))
    engine.add(late)
    engine.step()
    assert late.num_output_tokens == 1 and not any(map(_num_merges, batches))
    engine.step()
    assert _num_merges(batches[-1]) == 40 and len(batches[-1].requests) == 2
    assert merged(engine) == [[2] * 5]


def test_means_are_made_after_the_last_request() -> None:
    engine = shift_toy_engine(donor="consensus")
    batches = _recorded(engine)
    for header in TOY_HEADERS[:2]:
        engine.add(toy_request(header + TOY_CHUNK, 1, shift=False))
    while engine.scheduler.running or len(engine.scheduler.waiting):
        engine.step()
    assert merged(engine) == [] and engine.has_work
    steps = engine.metrics.steps
    assert engine.step() == [] and merged(engine) == [[2] * 5]
    assert batches[-1].requests == () and engine.metrics.steps == steps
    engine.step()
    assert not engine.has_work and held_blocks(engine) == 0


def _recorded(engine: Engine) -> list[Batch]:
    batches: list[Batch] = []
    execute = engine.executor.execute

    def record(batch: Batch) -> Any:
        batches.append(batch)
        return execute(batch)

    engine.executor.execute = record  # type: ignore[method-assign]
    return batches


def _num_merges(batch: Batch) -> int:
    return sum(map(len, batch.merges))


@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_interrupted_merge_begins_again(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In steps of 33 rows, of which one is lost half-way."""
    monkeypatch.setattr("kvtool.cache.means.MAX_STEP_TOKENS", 33)
    engines = [consensus_engine(movable("llama")) for _ in range(2)]
    pools = []
    for number, engine in enumerate(engines):
        remember(engine, 1)
        engine.add(toy_request(HEADERS[1] + CHUNK, 1, shift=False))
        while engine.scheduler.running or len(engine.scheduler.waiting):
            engine.step()
        for step in range(20):
            if number and step == at and engine.has_work:
                _interrupt_after_merges(engine)
            if engine.has_work:
                engine.step()
        assert merged(engine) == [[2] * 10]
        (chain,) = engine.manager.shift.chains
        pools.append(engine.executor.model.pools[0][chain.blocks[0]].clone())
        movable("llama").allocate_pools(256, 4)
    assert torch.equal(*pools)


def _interrupt_after_merges(engine: Engine) -> None:
    execute = engine.executor.execute

    def fail(batch: Batch) -> Any:
        execute(batch)
        raise KeyboardInterrupt

    engine.executor.execute = fail  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        engine.step()
    engine.executor.execute = execute  # type: ignore[method-assign]
    engine.check_integrity()


def test_interrupts_of_other_steps_do_no_harm() -> None:
    engine = shift_toy_engine(donor="consensus")
    finished(engine, *(toy_request(h + TOY_CHUNK, 1, shift=False) for h in TOY_HEADERS[:2]))
    request = toy_request(TOY_HEADERS[2] + TOY_CHUNK, 3, shift=False)
    engine.add(request)
    engine.step()
    interrupt(engine)
    finished(engine)
    assert request.output_ids == expected(request) and merged(engine) == [[3] * 5]


def test_records_go_first_then_means_then_exact_blocks() -> None:
    engine = shift_toy_engine(donor="consensus", num_blocks=60)
    finished(engine, *(toy_request(h + TOY_CHUNK, 1, shift=False) for h in TOY_HEADERS[:2]))
    other = [(3 * i + i * i) % 5 for i in range(13)]
    finished(engine, toy_request([*TOY_HEADERS[2], *other, 0], 1, shift=False))
    finished(engine, toy_request([4, 4, *TOY_HEADERS[3], *other, 1, 1], 9))
    planner, stats = engine.manager.shift, engine.manager.stats
    assert planner is not None and len(planner.chains) == 1 and stats.approximate_records == 1
    seen = []
    for length in range(4, 230, 4):
        finished(engine, toy_request([3] * length, 1, reuse=False))
        state = (stats.dropped_tokens > 0, len(planner.chains) > 0, stats.evicted_blocks > 0)
        if not seen or seen[-1] != state:
            seen.append(state)
    assert seen == [
        (False, True, False),
        (True, True, False),
        (True, False, False),
        (True, False, True),
    ]


def test_a_mean_that_a_request_reads_is_not_dropped_and_not_changed() -> None:
    engine = shift_toy_engine(donor="consensus", num_blocks=48)
    finished(engine, *(toy_request(h + TOY_CHUNK, 1, shift=False) for h in TOY_HEADERS[:2]))
    (chain,) = engine.manager.shift.chains
    reader = toy_request([4, 4, *TOY_HEADERS[2], *TOY_CHUNK, 1, 1], 40)
    engine.add(reader)
    engine.step()
    before = engine.executor.kv[0, chain.blocks[0]].copy()
    third = toy_request(TOY_HEADERS[3] + TOY_CHUNK, 1, shift=False)
    engine.add(third)
    while merged(engine) != [[3] * 5]:
        engine.step()
    engine.add(toy_request([3] * 60, 1, reuse=False))
    while engine.has_work:
        assert (engine.executor.kv[0, chain.blocks[0]] == before).all() or reader.is_finished
        engine.step()
    assert reader.usage.shifted_tokens > 0 and held_blocks(engine) == 0


def test_means_take_a_share_of_the_pool_and_no_block_that_is_spoken_for() -> None:
    engine = shift_toy_engine(donor="consensus", num_blocks=64, watermark=0.0)
    chunks = [[(i * i + i * j) % 5 for i in range(20)] for j in range(5)]
    for chunk in chunks:
        finished(engine, *(toy_request(h + chunk, 1, shift=False) for h in TOY_HEADERS[:2]))
        assert engine.manager.shift.chains.num_blocks <= 64 // MAX_SHARE
    assert len(engine.manager.shift.chains) > 1
    for watermark, means in ((0.0, [[2] * 5]), (1.0, [])):
        engine = shift_toy_engine(donor="consensus", num_blocks=40, watermark=watermark)
        finished(engine, *(toy_request(h + TOY_CHUNK, 1, shift=False) for h in TOY_HEADERS[:2]))
        assert merged(engine) == means


def test_clearing_the_cache_forgets_means() -> None:
    engine = shift_toy_engine(donor="consensus")
    finished(engine, *(toy_request(h + TOY_CHUNK, 1, shift=False) for h in TOY_HEADERS[:2]))
    engine.manager.clear()
    engine.check_integrity()
    assert merged(engine) == [] and engine.manager.num_free_blocks == 64


def test_an_executor_without_weights_makes_the_same_plans() -> None:
    batches = []
    for simulated in (False, True):
        engine = shift_toy_engine(donor="consensus")
        if simulated:
            engine.executor = SimulatedExecutor(engine.executor.groups, 5)
        recorded = _recorded(engine)
        requests = [toy_request(h + TOY_CHUNK, 1, shift=False) for h in TOY_HEADERS[:3]]
        requests.append(toy_request([4, 4, *TOY_HEADERS[4], *TOY_CHUNK, 1, 1], 1))
        for request in requests:
            finished(engine, request)
        batches.append([(_merges_of(b), _tables_of(b)) for b in recorded])
        assert [run.origin for run in requests[-1].moved_runs] == [KEPT]
    assert batches[0] == batches[1] and any(merges for merges, _ in batches[0])


def _merges_of(batch: Batch) -> list[list[int]]:
    return [row for group in batch.merges for row in group.tolist()]


def _tables_of(batch: Batch) -> list[list[list[int]]]:
    return [rows.tolist() for scheduled in batch.requests for rows in scheduled.entries]
