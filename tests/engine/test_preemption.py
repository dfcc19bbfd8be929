"""Too few blocks for everyone: who gives way, and that all end as if nothing had happened."""

from __future__ import annotations

import pytest
from engine.toy_engine import expected, held_blocks, run, toy_engine, toy_request
from engine.workloads import interrupt

from kvtool.engine.request import Request, RequestStatus

pytestmark = [pytest.mark.report("S26"), pytest.mark.report("S29")]


def prompt(length: int, seed: int = 0) -> list[int]:
    return [(seed + i * i) % 5 for i in range(length)]


@pytest.mark.parametrize("index", ["radix", "chain"])
def test_the_latest_admitted_gives_way_and_resumes(index: str) -> None:
    engine = toy_engine(num_blocks=6, watermark=0.0, index=index)
    old, young = toy_request(prompt(8), 14), toy_request(prompt(8, seed=1), 14)
    done = run(engine, old, young)
    assert done == [old, young]
    assert old.num_preemptions == 0 and young.num_preemptions >= 1
    assert engine.metrics.preemptions == young.num_preemptions
    assert old.output_ids == expected(old) and young.output_ids == expected(young)


def test_committed_blocks_of_a_victim_stay_cached() -> None:
    engine = toy_engine(num_blocks=7, watermark=0.0)
    old, young = toy_request(prompt(8), 14), toy_request(prompt(8, seed=1), 10)
    engine.add(old)
    engine.add(young)
    while young.status is not RequestStatus.PREEMPTED:
        engine.step()
    hit = engine.manager.match(young.tokens) // 4 * 4  # it resumes from whole blocks
    assert hit >= 8
    engine.abort(old)
    before = engine.executor.computed_tokens
    run(engine)
    assert engine.executor.computed_tokens - before == young.max_tokens_total - hit
    assert young.output_ids == expected(young)
    assert young.num_cached_tokens == 0  # counted once, at first admission
    stats = engine.manager.stats
    assert (stats.requests, stats.queried_tokens, stats.hit_tokens) == (2, 16, 0)


def test_two_requests_that_each_need_the_whole_pool_finish() -> None:
    engine = toy_engine(num_blocks=8, block_size=16, max_num_batched_tokens=32)
    requests = [toy_request(prompt(100, seed=i), 28) for i in range(2)]
    run(engine, *requests)
    assert all(request.output_ids == expected(request) for request in requests)
    assert engine.metrics.preemptions <= 2


def test_preemptions_are_bounded_and_the_oldest_always_progresses() -> None:
    engine = toy_engine(num_blocks=9, watermark=0.0)
    requests = [toy_request(prompt(5, seed=i), 24) for i in range(8)]
    for request in requests:
        engine.add(request)
    while engine.has_work:
        oldest = next(iter(engine.scheduler.running), None)
        before = oldest.num_computed_tokens if oldest else 0
        engine.step()
        if oldest and not oldest.is_finished:
            assert oldest.num_computed_tokens > before
            assert oldest is engine.scheduler.running[0]
    assert all(request.output_ids == expected(request) for request in requests)
    assert 0 < engine.metrics.preemptions <= len(requests) ** 2


def test_interrupted_copy_is_never_shared() -> None:
    engine = toy_engine(block_size=8)
    run(engine, toy_request(prompt(16), 1))
    diverging = [*prompt(11), (prompt(16)[11] + 1) % 5, 4]
    request, again = toy_request(diverging, 3), toy_request(diverging, 3)
    engine.add(request)
    interrupt(engine)
    engine.check_integrity()
    assert engine.manager.stats.copied_blocks == 1
    assert request.status is RequestStatus.PREEMPTED and held_blocks(engine) == 0
    run(engine, again)
    assert request.output_ids == again.output_ids == expected(again)


@pytest.mark.parametrize("when", range(7))
def test_abort_at_every_step_leaves_only_computed_blocks(when: int) -> None:
    engine = toy_engine(max_num_batched_tokens=5)
    request: Request = toy_request(prompt(18), 4)
    engine.add(request)
    for _ in range(when):
        engine.step()
    engine.abort(request)
    engine.abort(request)
    engine.check_integrity()
    assert request.is_finished and held_blocks(engine) == 0 and not engine.has_work
    assert request.finish_reason == ("abort" if when < 7 else "length")
    assert engine.manager.match(request.tokens) == request.num_computed_tokens
    again = toy_request(prompt(18), 4)
    run(engine, again)
    assert again.output_ids == expected(again)


@pytest.mark.report("S27")
def test_divergence_inside_a_cached_block_in_a_pool_without_a_spare_block() -> None:
    """The copy would need one block more than a cold run: that block is computed instead."""
    engine = toy_engine(num_blocks=2, block_size=8)
    run(engine, toy_request(prompt(16), 1))
    request = toy_request([*prompt(11), 4, 4], 4)
    run(engine, request)
    assert request.output_ids == expected(request)
    assert request.num_cached_tokens == 8 and request.num_preemptions == 0


def test_full_hit_inside_a_cached_block_in_a_pool_without_a_spare_block() -> None:
    engine = toy_engine(num_blocks=2, block_size=8)
    run(engine, toy_request(prompt(16), 1))
    request = toy_request(prompt(11), 4)
    run(engine, request)
    assert request.output_ids == expected(request)
    assert request.num_cached_tokens == 10
