"""What three ways of laying KV out in memory take for the same requests (Kwon et al., 2023)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kvtool.analysis.accesses import Accesses, Ints


class Layout(NamedTuple):
    """peak_tokens: slots taken, at most, by requests that run at the same time."""

    layout: str
    peak_tokens: int
    definition: str

    def peak_bytes(self, bytes_per_token: int) -> int:
        return self.peak_tokens * bytes_per_token


DEFINITIONS = {
    "used": "prompt and reply tokens themselves, nothing shared",
    "contiguous": "the longest request's length reserved for every request",
    "paged": "whole blocks for prompt and reply, nothing shared",
    "paged+shared": "whole blocks, those of equal prefixes once; replies are not shared",
}


def layouts(accesses: Accesses, concurrency: int, max_length: int | None = None) -> list[Layout]:
    """Peaks over the trace when each `concurrency` requests in a row run together, each with its
    whole prompt and recorded reply.

    max_length: tokens reserved a request; default: the longest prompt with its reply.
    """
    assert concurrency > 0, concurrency
    size = accesses.unit.block_tokens
    tokens_before = np.concatenate([[0], np.cumsum(accesses.tokens)])
    prompts = np.diff(tokens_before[accesses.starts]) + accesses.rest
    lengths = prompts + accesses.outputs
    blocks = -(-lengths // size)
    own = blocks - np.diff(accesses.starts)  # behind the prompt's blocks
    reserved = int(lengths.max(initial=0)) if max_length is None else max_length
    shared = _window_sums(own, concurrency) + _distinct(accesses, concurrency)
    peaks = {
        "used": _peak(_window_sums(lengths, concurrency)),
        "contiguous": reserved * min(concurrency, accesses.num_requests),
        "paged": _peak(_window_sums(blocks, concurrency)) * size,
        "paged+shared": _peak(shared) * size,
    }
    return [Layout(name, peak, DEFINITIONS[name]) for name, peak in peaks.items()]


def _window_sums(values: Ints, length: int) -> Ints:
    """[R]: the sum of values (r - length, r]."""
    sums = np.concatenate([[0], np.cumsum(values)])
    ends = np.arange(1, len(sums))
    totals: Ints = sums[ends] - sums[np.maximum(0, ends - length)]
    return totals


def _distinct(accesses: Accesses, length: int) -> Ints:
    """[R]: distinct blocks of requests (r - length, r].

    An access counts from its request on, until the next one to its block or until its request
    has left.
    """
    num_requests, following = accesses.num_requests, accesses.following
    until = np.minimum(accesses.requests + length, num_requests)
    later = following >= 0
    until[later] = np.minimum(until[later], accesses.requests[following[later]])
    changes = np.bincount(accesses.requests, minlength=num_requests + 1)
    changes = changes - np.bincount(until, minlength=num_requests + 1)
    distinct: Ints = np.cumsum(changes)[:num_requests]
    return distinct


def _peak(values: Ints) -> int:
    return int(values.max(initial=0))
