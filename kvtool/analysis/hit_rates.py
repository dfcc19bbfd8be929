"""Every definition of "hit rate", side by side, for a cache that never evicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from kvtool.analysis.accesses import Accesses, Ints
from kvtool.analysis.policies.policy import Mask


class HitRate(NamedTuple):
    """value: numerator / denominator, None where nothing was asked for."""

    value: float | None
    numerator: float
    denominator: int
    definition: str


DEFINITIONS = {
    "block_cold": "hit blocks / blocks, from an empty cache on",
    "token_cold": "tokens of hit blocks / prompt tokens, from an empty cache on",
    "block_warm": "hit blocks / blocks of the second half of the requests, "
    "the first half having filled the cache",
    "token_warm": "tokens of hit blocks / prompt tokens of the second half of the requests, "
    "the first half having filled the cache",
    "request_mean": "mean over requests with a block of hit blocks / blocks, "
    "from an empty cache on",
}

# Whose own figure has the same formula. These count whole blocks, of any number; who finds parts of
# blocks, or has a least length, says so here. Counters that run since the start are compared with
# the cold rate, their increase between two scrapes with the warm one.
REPORTED_BY = {
    "block_cold": ("prefixlens",),
    "token_cold": (
        "kvtool (hit_rate; of a radix index with parts of blocks)",
        "vLLM (vllm:prefix_cache_hits / vllm:prefix_cache_queries)",
        "SGLang (sglang:cached_tokens_total / sglang:prompt_tokens_total)",
        "OpenAI (cached_tokens / prompt_tokens, summed; its least length aside)",
        "Anthropic (cache_read_input_tokens / all input tokens, summed; its least length aside)",
    ),
    "block_warm": (),
    "token_warm": (
        "kvcache-simulator (second half of the requests)",
        "vLLM (log line: the last 1000 requests)",
        "SGLang (sglang:cache_hit_rate: one prefill batch)",
    ),
    "request_mean": ("AIPerf analyze-trace",),
}


def hit_rates(accesses: Accesses) -> dict[str, HitRate]:
    """One of each of DEFINITIONS."""
    again = accesses.previous >= 0
    half = accesses.num_requests // 2
    return {
        "block_cold": _of_blocks("block_cold", accesses, again, 0),
        "token_cold": _of_tokens("token_cold", accesses, again, 0),
        "block_warm": _of_blocks("block_warm", accesses, again, half),
        "token_warm": _of_tokens("token_warm", accesses, again, half),
        "request_mean": _of_requests(accesses, again),
    }


def as_json(rates: Mapping[str, HitRate]) -> dict[str, object]:
    return {name: rate._asdict() for name, rate in rates.items()}


def _rate(name: str, numerator: float, denominator: int) -> HitRate:
    value = numerator / denominator if denominator else None
    return HitRate(value, numerator, denominator, DEFINITIONS[name])


def _of_blocks(name: str, accesses: Accesses, hits: Mask, first: int) -> HitRate:
    """Of the requests from `first` on."""
    hits = hits[accesses.starts[first] :]
    return _rate(name, int(np.count_nonzero(hits)), len(hits))


def _of_tokens(name: str, accesses: Accesses, hits: Mask, first: int) -> HitRate:
    start = accesses.starts[first]
    tokens = accesses.tokens[start:]
    asked = int(tokens.sum() + accesses.rest[first:].sum())
    return _rate(name, int(tokens[hits[start:]].sum()), asked)


def _of_requests(accesses: Accesses, hits: Mask) -> HitRate:
    lengths: Ints = np.diff(accesses.starts)
    hit_blocks = np.bincount(accesses.requests[hits], minlength=accesses.num_requests)
    asked = lengths > 0
    shares = hit_blocks[asked] / lengths[asked]
    return _rate("request_mean", float(shares.sum()), int(np.count_nonzero(asked)))
