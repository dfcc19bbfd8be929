"""First in, first out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np

from kvtool.analysis.accesses import Accesses
from kvtool.analysis.policies.policy import Mask


def fifo(accesses: Accesses, capacities: Sequence[int]) -> Iterator[Mask]:
    """The block that came first goes first, used or not; a request's blocks come head first.

    Chains are not respected: a block can be there without those in front of it, and a request
    evicts its own blocks when it has to.
    """
    return (_resident(accesses, capacity) for capacity in capacities)


def _resident(accesses: Accesses, capacity: int) -> Mask:
    cached: set[int] = set()
    queue: deque[int] = deque()
    found: list[bool] = []
    for blocks in accesses.by_request():
        found += map(cached.__contains__, blocks)
        for block in blocks:
            if block in cached:
                continue
            if len(cached) == capacity:
                cached.remove(queue.popleft())
            cached.add(block)
            queue.append(block)
    return np.array(found, dtype=bool)
