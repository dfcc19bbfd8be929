"""Budgets, order, fairness, twins: who runs in which step."""

from __future__ import annotations

import numpy as np
import pytest
from engine.toy_engine import expected, held_blocks, run, toy_engine, toy_request

from kvtool.engine.request import RequestStatus
from kvtool.engine.waiting_queue import Candidate, admission_order


def scheduled(engine, steps: int) -> list[dict[int, int]]:
    """request id -> tokens fed, step by step."""
    seen: list[dict[int, int]] = []
    execute = engine.executor.execute

    def record(batch):
        seen.append({s.request.id: s.num_tokens for s in batch.requests})
        return execute(batch)

    engine.executor.execute = record
    for _ in range(steps):
        engine.step()
    engine.executor.execute = execute
    return seen


def prompt(length: int, seed: int = 0) -> list[int]:
    return [(seed + i * i) % 5 for i in range(length)]


def test_decodes_come_first_and_prefill_takes_the_rest_of_the_budget() -> None:
    engine = toy_engine(max_num_batched_tokens=10)
    short, long = toy_request(prompt(3)), toy_request(prompt(25, seed=1))
    engine.add(short)
    assert scheduled(engine, 1) == [{short.id: 3}]
    engine.add(long)
    assert scheduled(engine, 3) == [{short.id: 1, long.id: 9}] * 2 + [{short.id: 1, long.id: 7}]
    assert short.is_finished and long.num_output_tokens == 1


def test_a_prefill_under_way_never_stops_decodes() -> None:
    engine = toy_engine(max_num_batched_tokens=2)
    long, short = toy_request(prompt(20)), toy_request(prompt(1, seed=3), 8)
    engine.add(short)
    engine.step()
    engine.add(long)
    assert scheduled(engine, 7) == [{short.id: 1, long.id: 1}] * 7
    run(engine)
    assert long.output_ids == expected(long)


def test_no_more_run_than_max_num_seqs_or_than_the_budget_can_decode() -> None:
    for options in ({"max_num_seqs": 2}, {"max_num_batched_tokens": 2}):
        engine = toy_engine(**options)
        requests = [toy_request(prompt(2, seed=i)) for i in range(5)]
        for request in requests:
            engine.add(request)
        while engine.has_work:
            engine.step()
            assert len(engine.scheduler.running) <= 2
        assert all(request.output_ids == expected(request) for request in requests)


def test_16_tokens_take_one_block_and_the_17th_the_second() -> None:
    engine = toy_engine(block_size=16)
    request = toy_request(prompt(14), max_tokens=5)
    engine.add(request)
    blocks = []
    while engine.has_work:
        engine.step()
        blocks.append((request.num_computed_tokens, held_blocks(engine)))
    assert blocks == [(14, 1), (15, 1), (16, 1), (17, 2), (18, 0)]


def test_watermark_holds_newcomers_back_while_others_run() -> None:
    engine = toy_engine(num_blocks=10, watermark=0.2, max_num_batched_tokens=64)
    first, second = toy_request(prompt(16), 3), toy_request(prompt(17, seed=1), 1)
    engine.add(first)
    engine.step()
    engine.add(second)  # 5 blocks + 2 reserved; 4 are held and 1 is promised: 5 + 1 + 2 > 6
    engine.step()
    assert second.status is RequestStatus.WAITING
    run(engine)
    assert first.num_preemptions == second.num_preemptions == 0
    assert second.output_ids == expected(second)


def test_watermark_does_not_count_while_nothing_else_runs() -> None:
    engine = toy_engine(num_blocks=4, watermark=1.0)
    request = toy_request(prompt(13), 4)
    run(engine, request)
    assert request.output_ids == expected(request)


def test_blocks_promised_to_a_prefill_under_way_are_not_given_to_newcomers() -> None:
    engine = toy_engine(num_blocks=10, watermark=0.0, max_num_batched_tokens=9)
    long, late = toy_request(prompt(32), 1), toy_request(prompt(12, seed=1), 1)
    engine.add(long)
    engine.step()
    engine.add(late)
    run(engine)
    assert long.num_preemptions == late.num_preemptions == 0
    assert long.output_ids == expected(long)


@pytest.mark.report("S02")
def test_pool_of_exactly_the_blocks_of_a_fully_cached_prompt() -> None:
    for index in ("radix", "chain"):
        engine = toy_engine(num_blocks=3, block_size=16, index=index)
        cold, warm = toy_request(prompt(48), 1), toy_request(prompt(48), 1)
        run(engine, cold)
        run(engine, warm)
        assert warm.usage.cached_tokens == 47 and warm.usage.computed_tokens == 1
        assert warm.output_ids == cold.output_ids == expected(cold)
        assert engine.manager.stats.evicted_blocks == 0
        assert engine.manager.stats.full_hit_recomputed == 1
        assert engine.manager.match(cold.prompt_ids) == 48
        assert engine.executor.computed_tokens == 49


@pytest.mark.report("S02")
@pytest.mark.parametrize("length", [16, 32, 33])
def test_full_hit_computes_one_token(length: int) -> None:
    engine = toy_engine(block_size=16)
    cold, warm = toy_request(prompt(length)), toy_request(prompt(length))
    run(engine, cold)
    run(engine, warm)
    assert warm.num_cached_tokens == length - 1
    assert warm.output_ids == cold.output_ids == expected(cold)


@pytest.mark.report("S05")
def test_one_token_prompt_and_strict_prefixes_of_what_was_run_before() -> None:
    engine = toy_engine()
    for length in (1, 1, 9, 8, 7, 5, 4, 3, 1):
        request = toy_request(prompt(length), 5)
        run(engine, request)
        assert request.output_ids == expected(request)
        assert request.num_tokens == length + 5
        assert request.num_computed_tokens == length + 4  # the last sampled token is never fed


@pytest.mark.report("S13")
@pytest.mark.parametrize(
    ("index", "block_size", "hit"), [("radix", 16, 149), ("chain", 16, 144), ("chain", 1, 149)]
)
def test_prompt_and_reply_are_both_hit_by_the_next_turn(
    index: str, block_size: int, hit: int
) -> None:
    """149 of 150: the last sampled token was never fed, so it has no KV."""
    engine = toy_engine(num_blocks=256, block_size=block_size, index=index)
    first = toy_request(prompt(100), 50)
    run(engine, first)
    second = toy_request([*first.tokens.tolist(), *prompt(50, seed=2)], 1)
    run(engine, second)
    assert second.num_cached_tokens == hit


def test_reuse_false_neither_reads_nor_leaves_anything() -> None:
    engine = toy_engine()
    run(engine, toy_request(prompt(20)))
    fresh, other = (
        toy_request(prompt(20), reuse=False),
        toy_request(prompt(24, seed=9), reuse=False),
    )
    run(engine, fresh, other)
    assert fresh.num_cached_tokens == 0 and fresh.output_ids == expected(fresh)
    assert engine.manager.match(other.prompt_ids) == 0
    assert engine.manager.stats.queried_tokens == 20


def test_namespaces_do_not_share() -> None:
    engine = toy_engine()
    run(engine, toy_request(prompt(20), namespace=b"a"))
    other = toy_request(prompt(20), namespace=b"b")
    run(engine, other)
    assert other.num_cached_tokens == 0 and other.output_ids == expected(other)


def test_longest_cached_prefix_goes_first() -> None:
    engine = toy_engine(max_num_seqs=1, num_blocks=256)
    run(engine, toy_request(prompt(40), 1))
    cold = toy_request(prompt(40, seed=1), 1)
    half = toy_request(prompt(20) + [4] * 20, 1)
    whole = toy_request(prompt(40), 1)
    assert run(engine, cold, half, whole) == [whole, half, cold]
    assert (cold.overtaken, half.overtaken, whole.overtaken) == (2, 1, 0)


@pytest.mark.parametrize("max_overtakes", [0, 1, 3])
def test_nobody_is_overtaken_more_often_than_allowed(max_overtakes: int) -> None:
    engine = toy_engine(max_num_seqs=1, num_blocks=512, max_overtakes=max_overtakes)
    run(engine, toy_request(prompt(40), 1))
    cold = toy_request(prompt(40, seed=1), 1)
    warm = [toy_request([*prompt(40), i % 5], 1) for i in range(6)]
    order = run(engine, cold, *warm)
    assert order.index(cold) == max_overtakes
    assert all(request.overtaken <= max_overtakes for request in order)


def test_admission_order_is_a_pure_ranking() -> None:
    a, b, c = (toy_request([1]) for _ in range(3))
    candidates = [Candidate(a, 0), Candidate(b, 8), Candidate(c, 8)]
    assert [x.request for x in admission_order(candidates, 2)] == [b, c, a]
    a.overtaken = 2
    assert [x.request for x in admission_order(candidates, 2)] == [a, b, c]


@pytest.mark.report("S32")
@pytest.mark.parametrize("index", ["radix", "chain"])
def test_twin_waits_for_the_blocks_that_are_being_computed(index: str) -> None:
    engine = toy_engine(index=index, max_num_batched_tokens=64)
    first, twin = toy_request(prompt(24), 2), toy_request(prompt(24), 2)
    engine.add(first)
    engine.add(twin)
    assert scheduled(engine, 2) == [{first.id: 24}, {first.id: 1, twin.id: 1}]
    run(engine)
    assert twin.num_cached_tokens == 23
    assert engine.executor.computed_tokens == 24 + 1 + 1 + 1
    assert engine.manager.stats.duplicate_blocks == 0
    assert first.output_ids == twin.output_ids == expected(first)


def test_twin_with_less_than_a_block_in_common_does_not_wait() -> None:
    engine = toy_engine(max_num_batched_tokens=64)
    first, other = toy_request(prompt(24), 1), toy_request([*prompt(3), 3, 3, 3], 1)
    assert prompt(24)[3] != 3
    engine.add(first)
    engine.add(other)
    assert scheduled(engine, 1) == [{first.id: 24, other.id: 6}]


def test_twin_goes_on_by_itself_when_the_other_is_aborted() -> None:
    engine = toy_engine(max_num_batched_tokens=8)
    first, twin = toy_request(prompt(24), 2), toy_request(prompt(24), 2)
    engine.add(first)
    engine.add(twin)
    engine.step()
    engine.abort(first)
    run(engine)
    assert twin.num_cached_tokens == 8 and twin.output_ids == expected(twin)


@pytest.mark.report("S30")
def test_names_may_repeat_and_be_used_again() -> None:
    engine = toy_engine()
    requests = [toy_request(prompt(5, seed=i), name="x") for i in range(3)]
    for request in requests:
        engine.add(request)
    engine.step()
    engine.abort(requests[0])
    again = toy_request(prompt(9), name="x")
    run(engine, again)
    assert len({request.id for request in [*requests, again]}) == 4
    assert all(r.output_ids == expected(r) for r in [*requests[1:], again])
    assert held_blocks(engine) == 0


@pytest.mark.report("S28")
def test_50_short_requests_one_after_the_other_in_a_pool_of_10_blocks() -> None:
    engine = toy_engine(num_blocks=10)
    for i in range(50):
        request = toy_request([i % 5, i // 5 % 5, i // 25, *prompt(10, seed=i)])
        run(engine, request)
        assert request.output_ids == expected(request)
        assert held_blocks(engine) == 0
    assert engine.manager.stats.evicted_blocks > 100


@pytest.mark.report("S27")
def test_hits_on_unreferenced_blocks_are_charged() -> None:
    """4 blocks, all cached and unreferenced; a request hits 2 of them and needs 2 more."""
    engine = toy_engine(num_blocks=4, watermark=0.0)
    run(engine, toy_request(prompt(16), 1))
    request = toy_request([*prompt(8), 4, 4, 4, 4, 4, 4], 2)
    assert request.prompt_ids.tolist()[8:12] != prompt(16)[8:12]
    run(engine, request)
    assert request.num_cached_tokens == 8 and request.output_ids == expected(request)
    assert request.num_preemptions == 0


@pytest.mark.report("S27")
def test_a_block_is_invisible_until_it_is_full_and_computed() -> None:
    engine = toy_engine(block_size=8, max_num_batched_tokens=6)
    first = toy_request(prompt(8), 1)
    execute, seen = engine.executor.execute, []

    def look_and_execute(batch):
        seen.append(engine.manager.match(first.prompt_ids))
        return execute(batch)

    engine.executor.execute = look_and_execute
    engine.add(first)
    engine.step()
    seen.append(engine.manager.match(first.prompt_ids))
    engine.step()
    assert seen == [0, 0, 0]
    assert engine.manager.match(first.prompt_ids) == 8


def test_chain_hits_the_whole_blocks_of_what_radix_hits() -> None:
    """Any lengths, no eviction; radix hits beyond the last whole block, chain does not."""
    radix, chain = (toy_engine(num_blocks=512, index=index) for index in ("radix", "chain"))
    inside = 0
    for i in range(40):
        tokens = [*prompt(i * 7 % 23 + 1, seed=i % 2), *prompt(i % 6, seed=i)]
        hits = [engine.manager.match(np.array(tokens, dtype=np.int32)) for engine in (radix, chain)]
        assert hits[1] == hits[0] // 4 * 4
        inside += hits[0] % 4 > 0
        pair = [toy_request(tokens, 1 + i % 5) for _ in range(2)]
        run(radix, pair[0])
        run(chain, pair[1])
        assert pair[0].output_ids == pair[1].output_ids
    assert inside > 10


def test_chain_and_radix_give_the_same_hits_at_block_granularity() -> None:
    """Prompts of whole blocks, serial, no output KV beyond them: every hit is whole blocks."""
    runs = []
    for index in ("radix", "chain"):
        engine = toy_engine(num_blocks=12, index=index)
        hits = []
        for i in range(60):
            blocks = [i % 3, *[(i * 7 + j) % 2 for j in range(i % 5)]]
            request = toy_request([b for b in blocks for _ in range(4)], 1)
            run(engine, request)
            hits.append((request.num_cached_tokens, request.output_ids))
        runs.append((hits, engine.manager.stats.evicted_blocks))
    assert runs[0] == runs[1]
    assert runs[0][1] > 0
