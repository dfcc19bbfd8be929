"""Whatever mixture of requests runs: exact ones never rest on moved KV."""

from __future__ import annotations

from typing import Any

import pytest
from engine.toy_engine import VOCAB, expected, held_blocks, toy_engine, toy_request
from engine.workloads import interrupt
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.engine.batch import Batch
from kvtool.engine.engine import Engine
from kvtool.engine.executor import RunRefused
from kvtool.engine.request import Request


def shift_toy_engine(
    *, repair: str = "none", min_run: int = 5, donor: str = "recent", **options: Any
) -> Engine:
    cache = {"reuse": "shift", "repair": repair, "min_run": min_run, "donor": donor}
    return toy_engine(cache=cache, **options)


def pieces(seeds: list[int]) -> list[int]:
    """Texts of 5 to 13 tokens, one a seed, behind each other."""
    return [
        (seed * 7 + i * i * (seed + 1) + i // 3) % VOCAB for seed in seeds for i in range(5 + seed)
    ]


@st.composite
def mixtures(draw: st.DrawFn) -> dict[str, Any]:
    block_size = draw(st.sampled_from([1, 2, 3, 4]))
    prompts = draw(
        st.lists(
            st.tuples(
                st.lists(st.integers(0, 8), min_size=1, max_size=5).map(pieces),
                st.integers(1, 12),
                st.booleans(),  # moved text allowed
                st.sampled_from([b"salt a"] * 3 + [b"salt b", b"adapter"]),
                st.integers(0, 8),  # step of arrival
            ),
            min_size=2,
            max_size=8,
        )
    )
    least = max(-(-(len(prompt) + reply - 1) // block_size) for prompt, reply, *_ in prompts)
    return {
        "prompts": prompts,
        "interrupts": draw(st.sets(st.integers(0, 12), max_size=1)),
        "refusals": draw(st.sets(st.integers(0, 3), max_size=2)),
        "engine": {
            "block_size": block_size,
            "num_blocks": least + draw(st.sampled_from([0, 1, 2, 3, 5, 8, 40])),
            "num_groups": draw(st.integers(1, 2)),
            "index": draw(st.sampled_from(["radix", "chain"])),
            "repair": draw(st.sampled_from(["none", "first:2", "auto"])),
            "min_run": draw(st.integers(1, 8)),
            "donor": draw(st.sampled_from(["recent", "consensus"])),
            "max_num_seqs": draw(st.sampled_from([1, 3, 64])),
            "max_num_batched_tokens": draw(st.sampled_from([1, 3, 7, 256])),
            "watermark": draw(st.sampled_from([0.0, 0.01])),
        },
    }


@settings(max_examples=40)
@given(mixture=mixtures())
def test_exact_requests_always_get_the_cold_reply(mixture: dict[str, Any]) -> None:
    requests = play(mixture)
    for request in requests:
        usage = request.usage
        assert usage.computed_tokens >= 0 and usage.completion_tokens > 0
        assert usage.cached_tokens + usage.shifted_tokens < usage.prompt_tokens
        if not request.shift:
            assert usage.shifted_tokens == usage.recomputed_tokens == 0
            num_groups = mixture["engine"]["num_groups"]
            assert request.output_ids == expected(request, num_groups)


def play(mixture: dict[str, Any]) -> list[Request]:
    engine = shift_toy_engine(**mixture["engine"])
    _refuse_sometimes(engine, mixture["refusals"])
    requests = [
        toy_request(prompt, reply, shift=shift, namespace=namespace)
        for prompt, reply, shift, namespace, _ in mixture["prompts"]
    ]
    for step in range(10_000):
        for request, (*_, arrival) in zip(requests, mixture["prompts"]):
            if arrival == step:
                engine.add(request)
        if engine.has_work:
            if step in mixture["interrupts"]:
                interrupt(engine)
                engine.check_integrity()
            engine.step()
        elif step > 12:
            assert held_blocks(engine) == 0
            return requests
    raise AssertionError("the run does not end")


def _refuse_sometimes(engine: Engine, steps: set[int]) -> None:
    """Some steps find that the runs they meet for the first time do not fit."""
    execute, count = engine.executor.execute, iter(range(10**9))  # of steps with new runs

    def check_and_execute(batch: Batch) -> Any:
        found = {s.request.id: s.runs for s in batch.requests if s.runs}
        if found and next(count) in steps:
            raise RunRefused(found)
        return execute(batch)

    engine.executor.execute = check_and_execute  # type: ignore[method-assign]


def finished(engine: Engine, *requests: Request) -> list[Request]:
    for request in requests:
        engine.add(request)
    while engine.has_work:
        engine.step()
    return list(requests)


DONOR = [1, 2, 3, 4, 0, 4, 3, 1, 1, 2, 0, 3, 2, 2, 4, 1, 0, 0, 3, 4]
HEADER = [0, 1, 0, 2, 0, 3, 0, 4, 0]


def test_what_follows_moved_text_is_never_found_again() -> None:
    engine = shift_toy_engine()
    finished(engine, toy_request(DONOR, 2))
    (moved,) = finished(engine, toy_request(HEADER + DONOR, 9))
    assert moved.usage.shifted_tokens == len(DONOR) - 4 - 1  # without the sink, and the last
    (again,) = finished(engine, toy_request([*HEADER, *DONOR, *moved.output_ids], 2, shift=False))
    assert again.usage.cached_tokens == len(HEADER) + 4  # up to the first moved token
    assert again.output_ids == expected(again)


def test_a_donor_is_held_with_all_in_front_of_it_while_the_request_runs() -> None:
    """Then by the request's record, which gives way where blocks are scarce."""
    engine = shift_toy_engine(num_blocks=20)
    finished(engine, toy_request(DONOR, 1))
    request = toy_request(HEADER + DONOR[8:], 4)
    engine.add(request)
    engine.step()
    assert request.kv is not None and request.kv.shift is not None
    pool = engine.manager.groups[0].pool
    held = request.kv.shift.pins[0]
    assert len(held) == 5 and (pool.ref_count[held] == 1).all()
    filler = toy_request([3] * 50, 1)
    engine.add(filler)
    while not request.is_finished:
        engine.step()
        assert all(map(engine.manager.groups[0].tree.is_cached, held.tolist()))
    assert (pool.ref_count[held] == pool.weak_count[held]).all()
    engine.manager.clear()
    assert (pool.ref_count == 0).all()


def test_a_pool_that_is_too_small_for_donors_and_request_computes_everything() -> None:
    engine = shift_toy_engine(num_blocks=8)
    finished(engine, toy_request(DONOR, 1))
    (request,) = finished(engine, toy_request(HEADER + DONOR, 4))
    assert request.output_ids == expected(request)


@pytest.mark.parametrize("num_running", [0, 2])
def test_room_is_counted_with_what_the_runs_save(num_running: int) -> None:
    """Ten blocks for the whole prompt; six are free, and runs leave three to compute."""
    engine = shift_toy_engine(num_blocks=15, watermark=0.0)
    finished(engine, toy_request(DONOR, 1))
    others = [toy_request([i + 1] * 6, 3) for i in range(num_running)]
    for request in others:
        engine.add(request)
    if others:
        engine.step()
    request = toy_request(HEADER + DONOR + [1], 4)
    engine.add(request)
    engine.step()
    assert request.kv is not None
    assert request.usage.shifted_tokens >= 15


def test_a_run_that_another_group_has_lost_is_not_used() -> None:
    engine = shift_toy_engine(num_groups=2)
    finished(engine, toy_request(DONOR, 1))
    other = engine.manager.groups[1]
    other._evict(other.pool.num_unreferenced)
    (request,) = finished(engine, toy_request(HEADER + DONOR, 3))
    assert request.output_ids == expected(request, 2)
    assert engine.manager.stats.refused_runs == {"not_in_every_group": 1}


def test_a_preempted_request_plans_again() -> None:
    engine = shift_toy_engine(num_blocks=15, watermark=0.0)
    finished(engine, toy_request(DONOR, 1))
    old, late = toy_request([2] * 17, 22), toy_request(HEADER + DONOR, 8)
    finished(engine, old, late)
    assert late.num_preemptions > 0 and late.usage.shifted_tokens > 0
    assert old.output_ids == expected(old) and late.num_output_tokens == 8
