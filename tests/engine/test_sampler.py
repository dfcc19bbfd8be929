"""Filters against Transformers' own, draws against their distribution and their seed."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from engine.tiny_engine import tiny_engine
from engine.toy_engine import run
from transformers.generation import logits_process as hf

from kvtool.engine.request import Request
from kvtool.engine.sampler import (
    MAX_LOGIT,
    add_bias,
    draw,
    keep_min_p,
    keep_top_k,
    keep_top_p,
    penalise_repetition,
    report_logprobs,
    sample,
)
from kvtool.engine.sampling import SamplingParams
from kvtool.errors import ConfigError, ModelError

VOCAB = 50


def row(seed: int) -> torch.Tensor:
    values = torch.randn(VOCAB, generator=torch.Generator().manual_seed(seed)) * 3
    values[7] = values[11]  # a tie
    return values


def same(ours: torch.Tensor, theirs, logits: torch.Tensor, ids=(0,)) -> bool:
    return torch.equal(ours, theirs(torch.tensor([list(ids)]), logits[None].clone())[0])


@pytest.mark.parametrize("seed", range(5))
class TestAgainstTransformers:
    @pytest.mark.parametrize("k", [1, 2, 5, VOCAB, VOCAB + 1])
    def test_top_k(self, seed: int, k: int) -> None:
        assert same(keep_top_k(row(seed), k), hf.TopKLogitsWarper(k), row(seed))

    @pytest.mark.parametrize("p", [0.01, 0.3, 0.5, 0.9, 0.999])
    def test_top_p(self, seed: int, p: float) -> None:
        assert same(keep_top_p(row(seed), p), hf.TopPLogitsWarper(p), row(seed))

    @pytest.mark.parametrize("p", [0.01, 0.1, 0.5, 0.99])
    def test_min_p(self, seed: int, p: float) -> None:
        assert same(keep_min_p(row(seed), p), hf.MinPLogitsWarper(p), row(seed))

    @pytest.mark.parametrize("penalty", [0.5, 1.3, 2.0])
    def test_repetition_penalty(self, seed: int, penalty: float) -> None:
        seen = [3, 4, 3, 49, 0]
        ours = penalise_repetition(row(seed), torch.tensor(seen), penalty)
        assert same(ours, hf.RepetitionPenaltyLogitsProcessor(penalty), row(seed), seen)

    def test_bias(self, seed: int) -> None:
        bias = {3: 2.5, 40: -100.0}
        theirs = hf.SequenceBiasLogitsProcessor({(token,): value for token, value in bias.items()})
        assert same(add_bias(row(seed), bias), theirs, row(seed))


def request(prompt=(1, 2, 3), **sampling) -> Request:
    return Request(prompt, SamplingParams(**sampling))


def test_filters_that_are_off_change_nothing() -> None:
    for kept in (keep_top_k(row(0), 0), keep_top_p(row(0), 1.0), keep_min_p(row(0), 0.0)):
        assert torch.equal(kept, row(0))
    assert torch.equal(add_bias(row(0), {}), row(0))


def test_filters_leave_the_models_row_alone() -> None:
    logits = row(0)
    sampling = {
        "temperature": 0.7,
        "top_k": 9,
        "top_p": 0.9,
        "min_p": 0.1,
        "repetition_penalty": 1.5,
    }
    sample(logits[None], [request(logit_bias={1: 5.0}, **sampling)])
    assert torch.equal(logits, row(0))


def test_greedy_is_the_argmax_after_bias_and_penalty() -> None:
    logits = torch.zeros(1, VOCAB)
    logits[0, 5], logits[0, 6] = 3.0, 2.0
    ids = [
        sample(logits, [request(prompt, **sampling)])[0].token_id
        for prompt, sampling in [
            ((1,), {}),
            ((1,), {"logit_bias": {6: 2.0}}),
            ((5,), {"repetition_penalty": 2.0}),
        ]
    ]
    assert ids == [5, 6, 6]


def test_draws_follow_the_distribution() -> None:
    """20,000 draws; five standard deviations."""
    logits = torch.tensor([0.0, 1.0, 2.0, -math.inf])
    counts = np.bincount([draw(logits, 3, i) for i in range(20_000)], minlength=4)
    expected = logits.softmax(dim=-1).numpy() * 20_000
    assert counts[3] == 0
    assert (np.abs(counts - expected) <= 5 * np.sqrt(expected)).all()


def test_seeds_differ_and_repeat() -> None:
    logits = torch.zeros(1000)
    draws = [[draw(logits, seed, i) for i in range(20)] for seed in (0, 1, 2, 0)]
    assert draws[0] == draws[3]
    assert len({tuple(some) for some in draws}) == 3
    assert len({token for some in draws[:3] for token in some}) > 50


def test_sampling_does_not_depend_on_batch_or_preemption() -> None:
    """Tokens drawn alone, in a batch, and in a pool so small that requests are preempted."""

    def replies(**options) -> list[list[int]]:
        engine = tiny_engine(watermark=0.0, **options)
        requests = [
            request([5 + i, 9, 4 * i + 3], max_tokens=18, temperature=0.9, top_p=0.95, seed=i)
            for i in range(4)
        ]
        run(engine, *requests)
        replies.preemptions = engine.metrics.preemptions
        return [one.output_ids for one in requests]

    alone = replies(max_num_seqs=1)
    assert replies() == alone
    assert replies(num_blocks=12) == alone and replies.preemptions > 0


def test_logprobs_are_those_of_the_untouched_row() -> None:
    logits = row(1)
    one = request(logprobs=3, temperature=2.0, logit_bias={4: 100.0})
    sampled = sample(logits[None], [one])[0]
    expected = logits.log_softmax(dim=-1)
    assert sampled.token_id == 4 and sampled.logprob == pytest.approx(float(expected[4]))
    values, ids = expected.topk(3)
    assert [token for token, _ in sampled.top_logprobs] == ids.tolist()
    assert [value for _, value in sampled.top_logprobs] == pytest.approx(values.tolist())


def test_logprobs_of_more_tokens_than_there_are() -> None:
    assert len(report_logprobs(row(0), 0, 100)[1]) == VOCAB
    assert report_logprobs(row(0), 0, 0)[1] == ()


def test_requests_keep_logprobs_and_logits_only_where_asked() -> None:
    engine = tiny_engine()
    plain = request([4, 5], max_tokens=3)
    scored = request([4, 5], max_tokens=3, logprobs=2)
    run(engine, plain, scored)
    assert plain.samples == []
    assert [s.token_id for s in scored.samples] == scored.output_ids == plain.output_ids
    assert all(s.logits is None and len(s.top_logprobs) == 2 for s in scored.samples)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *[("temperature", value) for value in (-1, 1e-300, 1e-45, 0.0099, 100.1, math.nan)],
        *[("repetition_penalty", value) for value in (0, 1e-300, 0.0099, 101, math.inf, math.nan)],
        *[("top_k", -1), ("top_p", 0.0), ("top_p", math.nan), ("min_p", 1.0), ("logprobs", 101)],
    ],
)
def test_wrong_options(option: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"--{option.replace('_', '-')} is {value}"):
        SamplingParams(**{option: value})


@pytest.mark.parametrize("bias", [1e300, -1e39, 10_000.1, 10**400, math.inf, math.nan])
def test_wrong_bias(bias: float) -> None:
    with pytest.raises(ConfigError, match=r"--logit-bias of token 5 is .*; allowed: -10000 to"):
        SamplingParams(logit_bias={4: 1.0, 5: bias})


@pytest.mark.parametrize("temperature", [0.0, 0.01, 100.0])
@pytest.mark.parametrize("penalty", [0.01, 100.0])
@pytest.mark.parametrize("bias", [-10_000.0, 10_000.0])
@pytest.mark.parametrize("largest", [0.9 * MAX_LOGIT, 3.0, -0.9 * MAX_LOGIT])
def test_extreme_options_on_extreme_logits_still_choose(
    temperature: float, penalty: float, bias: float, largest: float
) -> None:
    logits = torch.full((1, VOCAB), -math.inf)
    logits[0, :4] = largest
    filters = {"temperature": temperature, "repetition_penalty": penalty, "logit_bias": {2: bias}}
    one = request(**filters, top_k=3, top_p=0.9, min_p=1e-300)
    assert sample(logits, [one])[0].token_id in range(4)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("value", [math.nan, math.inf, 3e38, None])
def test_a_row_that_is_no_distribution_fails_alone(temperature: float, value: float | None) -> None:
    logits = torch.stack([row(0), row(1), row(2)])
    logits[1] = logits[1].index_fill(0, torch.tensor([3]), value) if value else -math.inf
    requests = [request(temperature=temperature) for _ in range(3)]
    first, failed, last = sample(logits, requests)
    assert isinstance(failed, ModelError) and "largest logit is" in failed.message
    assert [first, last] == sample(logits[::2], requests[:2])


def test_forced_tokens_need_no_distribution() -> None:
    forced = Request([1], SamplingParams(), forced_ids=(9,), keep_logits=True)
    sampled = sample(torch.full((1, VOCAB), math.nan), [forced])[0]
    assert sampled.token_id == 9 and np.isnan(sampled.logits).all()
