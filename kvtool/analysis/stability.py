"""Whether the order of the requests decides a figure: by file, by time, and equal times reversed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kvtool.analysis.accesses import Accesses, Ints
from kvtool.analysis.lru_curve import lru_curve


class OrderRates(NamedTuple):
    """LRU hits at each of the given capacities. blocks, tokens: summed over the trace."""

    order: str
    hit_blocks: tuple[int, ...]
    hit_tokens: tuple[int, ...]


def orders(accesses: Accesses) -> dict[str, Ints]:
    """By name, int64 [R]. Requests without a time keep their place."""
    return {
        "time": np.arange(accesses.num_requests),
        "file": np.argsort(accesses.positions, kind="stable"),
        "ties_reversed": _ties_reversed(accesses),
    }


def stability(accesses: Accesses, capacities: Sequence[int]) -> list[OrderRates]:
    """One row an order; equal rows say that the order does not matter. A cache that never evicts
    has the same hits in any order."""
    rows = []
    for name, order in orders(accesses).items():
        curve = lru_curve(accesses.reordered(order))
        hits = [curve.at(capacity) for capacity in capacities]
        rows.append(OrderRates(name, tuple(b for b, _ in hits), tuple(t for _, t in hits)))
    return rows


def _ties_reversed(accesses: Accesses) -> Ints:
    """Runs of requests with one time, each backwards; nan equals nothing."""
    arrivals = accesses.arrivals
    begins = np.flatnonzero(np.append(True, arrivals[1:] != arrivals[:-1])[: len(arrivals)])
    lengths = np.diff(begins, append=len(arrivals))
    first = np.repeat(begins, lengths)
    last = first + np.repeat(lengths, lengths) - 1
    order: Ints = first + last - np.arange(len(arrivals))
    return order
