"""The next token from a row of logits.

Order as in Hugging Face `generate`: logit bias, repetition penalty, temperature, top-k, top-p,
min-p, draw. vLLM penalises in the same order and applies min-p before top-k and top-p. Reported
log-probabilities are those of the untouched row, as in vLLM. All maths in float32: a row whose
largest logit is sane stays so under the extremes of `SamplingParams`.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from kvtool.engine.batch import SampledToken
from kvtool.engine.request import Request
from kvtool.errors import ModelError

MAX_LOGIT = 1e30  # in size, of the largest of a row; float32 ends at 3e38
_NEVER = float("-inf")
_SEED_MULTIPLIER = 0x9E3779B97F4A7C15  # the golden ratio in 64 bits, as in splitmix64


def sample(logits: Tensor, requests: list[Request]) -> list[SampledToken | ModelError]:
    """One token a row, or why there is none. logits: float32 [num_requests, vocab_size]."""
    largest = logits.max(dim=-1)  # NaN where a row has one; -inf alone masks a token
    return [
        _sampled(row, request, value, greedy_id)
        for row, request, value, greedy_id in zip(
            logits, requests, largest.values.tolist(), largest.indices.tolist()
        )
    ]


def _sampled(
    row: Tensor, request: Request, largest: float, greedy_id: int
) -> SampledToken | ModelError:
    token_id = request.forced_id
    if token_id is None:
        if not abs(largest) <= MAX_LOGIT:  # false for NaN as well
            return _unusable(largest)
        token_id = greedy_id if _is_plain_greedy(request) else _choose(row, request)
    kept = row.cpu().numpy().copy() if request.keep_logits else None
    if request.sampling.logprobs is None:
        return SampledToken(token_id, logits=kept)
    logprob, top_logprobs = report_logprobs(row, token_id, request.sampling.logprobs)
    return SampledToken(token_id, logprob, top_logprobs, kept)


def _unusable(largest: float) -> ModelError:
    return ModelError(
        f"The model's largest logit is {largest}; allowed: finite, at most {MAX_LOGIT:g} in size.",
        hint="Try --dtype fp32; if it stays, the weights do not fit the model's configuration.",
    )


def _is_plain_greedy(request: Request) -> bool:
    sampling = request.sampling
    return (
        sampling.temperature == 0.0
        and sampling.repetition_penalty == 1.0
        and not sampling.logit_bias
    )


def _choose(row: Tensor, request: Request) -> int:
    sampling = request.sampling
    row = add_bias(row, sampling.logit_bias)
    if sampling.repetition_penalty != 1.0:
        seen = torch.from_numpy(request.tokens).to(row.device, torch.int64)
        row = penalise_repetition(row, seen, sampling.repetition_penalty)
    if sampling.temperature == 0.0:
        return int(row.argmax())
    row = row / sampling.temperature
    row = keep_top_k(row, sampling.top_k)
    row = keep_top_p(row, sampling.top_p)
    row = keep_min_p(row, sampling.min_p)
    return draw(row, sampling.seed, request.num_output_tokens)


def add_bias(row: Tensor, bias: Mapping[int, float]) -> Tensor:
    """row: [vocab_size]; adds a value to the logits of single tokens."""
    if not bias:
        return row
    row = row.clone()
    ids = torch.tensor(list(bias), dtype=torch.int64, device=row.device)
    row[ids] += torch.tensor(list(bias.values()), dtype=row.dtype, device=row.device)
    return row


def penalise_repetition(row: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """CTRL's penalty (arXiv:1909.05858), once for each token of prompt and output.

    row: [vocab_size]; seen: int64 [num_tokens], repeats allowed.
    """
    is_seen = torch.zeros_like(row, dtype=torch.bool)
    is_seen[seen] = True
    return row.where(~is_seen, torch.where(row < 0, row * penalty, row / penalty))


def keep_top_k(row: Tensor, k: int) -> Tensor:
    """The k largest, and all that equal the k-th; 0: all."""
    if k == 0 or k >= len(row):
        return row
    return row.masked_fill(row < row.topk(k).values[-1], _NEVER)


def keep_top_p(row: Tensor, p: float) -> Tensor:
    """The smallest set of most likely tokens with at least mass p (arXiv:1904.09751)."""
    if p == 1.0:
        return row
    ascending, ids = row.sort()
    below = ascending.softmax(dim=-1).cumsum(dim=-1) <= 1.0 - p
    below[-1] = False
    return row.masked_fill(torch.zeros_like(below).scatter(0, ids, below), _NEVER)


def keep_min_p(row: Tensor, p: float) -> Tensor:
    """Tokens at least p times as likely as the likeliest (arXiv:2407.01082)."""
    if p == 0.0:
        return row
    probabilities = row.softmax(dim=-1)
    return row.masked_fill(probabilities < p * probabilities.max(), _NEVER)


def draw(row: Tensor, seed: int, index: int) -> int:
    """Draw number `index` of a request: its own generator, so batching changes nothing, seeded
    anew for each draw, so there is no state to lose when the request is preempted."""
    generator = torch.Generator(device=row.device)
    generator.manual_seed(_mix(seed, index))
    return int(torch.multinomial(row.softmax(dim=-1), 1, generator=generator))


def _mix(seed: int, index: int) -> int:
    mixed = (seed + 1) * _SEED_MULTIPLIER + index
    return (mixed ^ (mixed >> 31)) * _SEED_MULTIPLIER % 2**63


def report_logprobs(
    row: Tensor, token_id: int, n: int
) -> tuple[float, tuple[tuple[int, float], ...]]:
    """Of the chosen token, and the n likeliest as (token_id, logprob), likeliest first."""
    logprobs = row.log_softmax(dim=-1)
    top = logprobs.topk(min(n, len(row)))
    pairs = tuple(zip(top.indices.tolist(), top.values.tolist()))
    return float(logprobs[token_id]), pairs
