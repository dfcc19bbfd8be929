"""The same promises on a real model: tokens in fp32, bits in deterministic mode."""

from __future__ import annotations

import numpy as np
import pytest
from engine.tiny_engine import assert_greedy, tiny_engine
from engine.toy_engine import held_blocks, run, toy_request
from engine.workloads import SOAK_FACTOR, interrupt, play, workloads
from hypothesis import given, settings

from kvtool.engine.request import Request

CHUNK = 8


def prompt(length: int, seed: int = 0) -> list[int]:
    return [3 + (seed * 31 + i * i * 7 + i) % 120 for i in range(length)]


@pytest.mark.report("S04")
@settings(max_examples=60 * SOAK_FACTOR)
@given(workloads())
def test_cold_equals_warm_equals_the_models_own_forward(workload) -> None:
    options = dict(workload["engine"])
    options.pop("num_groups")
    engine = tiny_engine(**options)
    for _ in ("cold", "warm"):
        for request in play(engine, workload):
            assert_greedy("llama", request)
        assert held_blocks(engine) == 0


@pytest.mark.parametrize("name", ["gemma3_text", "deepseek_v2", "gpt_oss"])
def test_layer_groups_windows_sinks_and_latents(name: str) -> None:
    """A hit of 37 tokens, inside a block: the copy must reach every group's pool."""
    engine = tiny_engine(name, num_blocks=16, block_size=8, max_num_batched_tokens=11)
    run(engine, toy_request(prompt(41), 6))
    warm, cold = toy_request([*prompt(37), 5, 6], 6), toy_request(prompt(20, seed=3), 9)
    run(engine, warm, cold)
    assert warm.num_cached_tokens == 37 and cold.num_cached_tokens == 0
    assert_greedy(name, warm)
    assert_greedy(name, cold)


@pytest.mark.report("S80")
def test_batched_prompts_of_different_lengths_need_no_padding() -> None:
    engine = tiny_engine()
    requests = [toy_request(prompt(length, seed=length), 7) for length in (3, 17, 1, 30)]
    run(engine, *requests)
    assert engine.metrics.max_batch_requests == 4
    for request in requests:
        assert_greedy("llama", request)


def logits_of(request: Request) -> np.ndarray:
    return np.stack([sampled.logits for sampled in request.samples])


def deterministic_engine(**options):
    return tiny_engine(
        **{
            "deterministic": True,
            "deterministic_chunk": CHUNK,
            "max_num_batched_tokens": 64,
            **options,
        }
    )


@pytest.mark.report("S04")
@pytest.mark.parametrize("length", [1, 7, 8, 9, 15, 16, 17, 24, 40])
@pytest.mark.parametrize("index", ["radix", "chain"])
def test_deterministic_logits_are_bit_identical_cold_and_warm(length: int, index: str) -> None:
    engine = deterministic_engine(index=index)
    cold, warm = (toy_request(prompt(length), 5, keep_logits=True) for _ in range(2))
    run(engine, cold)
    run(engine, warm)
    assert warm.num_cached_tokens == (length - 1) // CHUNK * CHUNK
    assert np.array_equal(logits_of(cold), logits_of(warm))
    assert_greedy("llama", cold)


def test_deterministic_next_turn_recomputes_the_reply_it_continues() -> None:
    """KV that decode wrote is not the KV a prefill writes: only whole prompt chunks are hit."""
    engine = deterministic_engine()
    first = toy_request(prompt(20), 12)
    run(engine, first)
    turn = [*first.tokens.tolist(), *prompt(5, seed=9)]
    warm, again = (toy_request(turn, 5, keep_logits=True) for _ in range(2))
    run(engine, warm)
    run(engine, again)
    cold = toy_request(turn, 5, keep_logits=True)
    run(deterministic_engine(), cold)
    assert (warm.num_cached_tokens, again.num_cached_tokens) == (16, 32)
    assert np.array_equal(logits_of(cold), logits_of(warm))
    assert np.array_equal(logits_of(cold), logits_of(again))


@pytest.mark.parametrize("seed", range(4))
def test_deterministic_logits_survive_concurrency_and_preemption(seed: int) -> None:
    lengths = [(17, 20), (9, 24), (23, 16), (8, 25)]
    engine = deterministic_engine(num_blocks=14, watermark=0.0)
    requests = [
        toy_request(prompt(length, seed + i), reply, keep_logits=True)
        for i, (length, reply) in enumerate(lengths)
    ]
    run(engine, *requests)
    assert engine.metrics.preemptions > 0 and engine.metrics.max_batch_requests == 1
    for i, (length, reply) in enumerate(lengths):
        alone = toy_request(prompt(length, seed + i), reply, keep_logits=True)
        run(deterministic_engine(), alone)
        assert np.array_equal(logits_of(alone), logits_of(requests[i]))


def test_deterministic_replay_does_not_read_what_a_later_prefill_wrote() -> None:
    """A reply under way becomes the prompt of another request, then is preempted."""
    engine = deterministic_engine()
    first = toy_request(prompt(17), 25, keep_logits=True)
    engine.add(first)
    while first.num_output_tokens < 10:
        engine.step()
    other = toy_request([*first.tokens.tolist(), *prompt(9)], 1)
    engine.add(other)
    while not other.is_finished:
        engine.step()
    assert engine.manager.match(first.tokens) >= 3 * CHUNK
    interrupt(engine)
    assert first.num_preemptions == 1
    run(engine)
    alone = toy_request(prompt(17), 25, keep_logits=True)
    run(deterministic_engine(), alone)
    assert np.array_equal(logits_of(alone), logits_of(first))


def test_forced_ids_are_fed_instead_of_the_models_choice() -> None:
    engine = tiny_engine()
    forced = toy_request(prompt(9), 6, forced_ids=(7, 8, 9, 10))
    run(engine, forced)
    assert forced.output_ids[:4] == [7, 8, 9, 10]
    engine = tiny_engine()
    free = toy_request([*prompt(9), 7, 8, 9, 10], 2)
    run(engine, free)
    assert forced.output_ids[4:] == free.output_ids
