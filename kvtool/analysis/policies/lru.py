"""Least recently used, the tail of a request first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvtool.analysis.accesses import Accesses
from kvtool.analysis.policies.policy import Mask
from kvtool.analysis.stack_distances import stack_distances


def lru(accesses: Accesses, capacities: Sequence[int]) -> Iterator[Mask]:
    """The least recently used block goes first; of one request's, the last block (vLLM's order).

    Of a request larger than the capacity the leading blocks stay.
    """
    distances = stack_distances(accesses)
    return (distances <= capacity for capacity in capacities)
