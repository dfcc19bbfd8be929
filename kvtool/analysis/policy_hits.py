"""Hits of eviction policies at given capacities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kvtool.analysis.accesses import Accesses
from kvtool.analysis.policies.policy import Mask, Policy


class PolicyHits(NamedTuple):
    """prefix: only the unbroken run from the request's first block counts, which is what an
    engine can use. independent: a cached block counts wherever it is in its request."""

    policy: str
    capacity_blocks: int
    prefix_blocks: int
    prefix_tokens: int
    independent_blocks: int
    independent_tokens: int


def policy_hits(
    accesses: Accesses, policy: Policy, capacities: Sequence[int], *, first: int = 0
) -> Iterator[PolicyHits]:
    """One row a capacity (blocks, 1 or more); divide by the blocks and tokens of the trace.

    first: only the hits of requests from this one on count, those in front fill the cache.
    """
    for capacity, resident in zip(capacities, policy.simulate(accesses, capacities)):
        prefix = prefix_only(resident, accesses)
        counts = (*_count(prefix, accesses, first), *_count(resident, accesses, first))
        yield PolicyHits(policy.name, capacity, *counts)


def prefix_only(resident: Mask, accesses: Accesses) -> Mask:
    """bool [A]: resident, and so is everything in front of it in its request."""
    misses = np.concatenate([[0], np.cumsum(~resident)])
    before_request = misses[accesses.starts[:-1]][accesses.requests]
    prefix: Mask = misses[1:] == before_request
    return prefix


def _count(hits: Mask, accesses: Accesses, first: int) -> tuple[int, int]:
    start = accesses.starts[first]
    hits, tokens = hits[start:], accesses.tokens[start:]
    return int(np.count_nonzero(hits)), int(tokens[hits].sum())
