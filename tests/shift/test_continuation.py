"""Later turns go on from a turn that used moved text, as if it had never ended."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from engine.toy_engine import toy_request
from shift.shift_engine import logits_of, movable, reply, shift_engine, text

from kvtool.engine.engine import Engine
from kvtool.engine.request import Request

CHUNK = text(60, seed=1)
DONOR = text(16, seed=2) + CHUNK + text(5, seed=3)
FIRST = text(37, seed=4)
REPLY = 6
TURNS = 10


def conversation() -> tuple[list[list[int]], list[list[int]]]:
    """Prompts and replies; the second prompt brings a chunk that was cached elsewhere."""
    prompts, replies, so_far = [], [], list(FIRST)
    for turn in range(TURNS):
        if turn == 1:
            so_far = so_far + CHUNK
        so_far = so_far + text(5 + turn % 3, seed=50 + turn)
        prompts.append(so_far)
        replies.append(text(REPLY, seed=100 + turn))
        so_far = so_far + replies[-1]
    return prompts, replies


def play(engine: Engine, **options: Any) -> list[Request]:
    reply(engine, DONOR)
    turns = zip(*conversation())
    return [reply(engine, p, REPLY, forced_ids=tuple(r), **options) for p, r in turns]


@pytest.mark.parametrize(
    ("index", "repair"),
    [("radix", "none"), ("radix", "attn:0.2"), ("radix", "first:13"), ("chain", "first:13")],
)
def test_ten_turns_compute_no_more_than_with_prefix_reuse(index: str, repair: str) -> None:
    settings = {"prefix_index": index, "repair": repair}
    shifted = play(shift_engine(movable("llama"), cache=settings))
    exact = play(shift_engine(movable("llama"), cache=settings | {"reuse": "prefix"}))

    def computed(request: Request) -> int:
        return request.usage.computed_tokens + request.usage.recomputed_tokens

    work = [(computed(one), computed(other)) for one, other in zip(shifted, exact)]
    assert all(one <= other for one, other in work), work
    assert sum(one for one, _ in work) < sum(other for _, other in work)
    assert work[1][0] <= work[1][1] - 60 + 13
    # Where moved text comes in: leading tokens that are computed again rest on exact KV alone.
    num_exact = len(FIRST) + 5 + REPLY + (13 if repair == "first:13" else 0)
    for request in shifted[1:]:
        assert request.is_approximate and request.usage.cached_tokens <= num_exact
    for before, request in pairwise(shifted[1:]):
        served = request.usage.cached_tokens + request.usage.shifted_tokens
        assert served == before.num_tokens - 1 and request.usage.recomputed_tokens == 0
        assert {run.origin for run in request.moved_runs} == {"approximate"}
        assert sum(run.stop - run.start for run in request.moved_runs) == (
            request.usage.shifted_tokens
        )


@pytest.mark.parametrize("name", ["llama", "gemma3_text", "deepseek_v3"])
@pytest.mark.parametrize("repair", ["none", "first:13", "attn:0.2"])
def test_going_on_from_a_record_is_never_having_stopped(name: str, repair: str) -> None:
    """One request whose forced reply is the rest of the conversation holds the same KV."""
    engine = shift_engine(movable(name), cache={"repair": repair})
    reply(engine, DONOR)
    prompts, replies = conversation()
    turns = [
        reply(engine, prompt, REPLY, forced_ids=tuple(said))
        for prompt, said in zip(prompts[1:4], replies[1:4])
    ]
    engine = shift_engine(movable(name), cache={"repair": repair})
    reply(engine, DONOR)
    rest = prompts[3][len(prompts[1]) :] + replies[3]
    whole = reply(engine, prompts[1], len(rest), forced_ids=tuple(rest))
    rows = logits_of(whole)
    for turn in turns:
        begin = turn.num_prompt_tokens - len(prompts[1])
        np.testing.assert_allclose(logits_of(turn), rows[begin : begin + REPLY], rtol=0, atol=2e-5)


def test_the_last_turn_again_computes_one_token() -> None:
    engine = shift_engine(movable("llama"))
    requests = play(engine)
    again = reply(engine, requests[-1].prompt_ids.tolist(), REPLY)
    assert again.usage.computed_tokens == 1
    assert again.usage.shifted_tokens == again.num_prompt_tokens - 1 - again.usage.cached_tokens


def test_two_turns_go_on_from_one() -> None:
    prompts, replies = conversation()
    tails = text(9, 30), text(11, 31)
    common = prompts[1] + replies[1]
    alone = []
    for tail in tails:
        engine = shift_engine(movable("llama"))
        reply(engine, DONOR)
        reply(engine, prompts[1], REPLY, forced_ids=tuple(replies[1]))
        alone.append(reply(engine, common + tail, 4))
    engine = shift_engine(movable("llama"))
    reply(engine, DONOR)
    reply(engine, prompts[1], REPLY, forced_ids=tuple(replies[1]))
    for tail, expected in zip(tails * 2, alone * 2):
        request = reply(engine, common + tail, 4)
        np.testing.assert_allclose(logits_of(request), logits_of(expected), rtol=0, atol=1e-5)
    assert engine.manager.stats.approximate_records == 2
    both = [toy_request(common + tail, 4, keep_logits=True) for tail in tails]
    list(engine.run(both))  # at the same time
    for request, expected in zip(both, alone):
        np.testing.assert_allclose(logits_of(request), logits_of(expected), rtol=0, atol=1e-5)


def test_only_requests_that_allow_it_read_records() -> None:
    engine = shift_engine(movable("llama"))
    requests = play(engine)
    prompt = requests[-1].prompt_ids.tolist()
    exact = reply(engine, prompt, REPLY, shift=False)
    assert exact.usage.shifted_tokens == 0 and exact.usage.cached_tokens <= len(FIRST) + 5 + REPLY
    cold = reply(shift_engine(movable("llama")), prompt, REPLY, reuse=False)
    assert exact.output_ids == cold.output_ids
    np.testing.assert_allclose(logits_of(exact), logits_of(cold), rtol=0, atol=1e-4)
    other = reply(engine, prompt[:-1], REPLY, namespace=b"salt")
    assert other.usage.cached_tokens == other.usage.shifted_tokens == 0


def test_exact_kv_that_reaches_into_a_record_is_preferred() -> None:
    """The same text computed exactly up to the middle of the moved chunk."""
    engine = shift_engine(movable("llama"))
    requests = play(engine)
    prompt = requests[-1].prompt_ids.tolist()
    reply(engine, prompt[:70], 1, shift=False)
    request = reply(engine, prompt, REPLY)
    assert request.usage.cached_tokens == 70
    assert request.usage.computed_tokens == 1
