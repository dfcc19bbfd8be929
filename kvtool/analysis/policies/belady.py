"""The best any policy can do (Belady, 1966), with bypass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

import numpy as np

from kvtool.analysis.accesses import Accesses, Ints
from kvtool.analysis.policies.policy import Mask


def belady(accesses: Accesses, capacities: Sequence[int]) -> Iterator[Mask]:
    """The block whose next request is furthest goes first, of equals the one used first. What
    is never used again does not stay, and a block needed no sooner than all cached ones does
    not come in. A request's blocks are taken head first.

    No policy has more hits when a cached block counts wherever it is in its request. An unbroken
    run from the start can be longer under others: this one does not respect chains.
    """
    again = accesses.previous >= 0
    used_later = accesses.following >= 0
    most = int(np.cumsum(used_later.astype(np.int64) - again).max(initial=0))
    moments = np.flatnonzero(again | used_later)
    for capacity in capacities:
        yield again if capacity >= most else _resident(accesses, capacity, moments)


def _resident(accesses: Accesses, capacity: int, moments: Ints) -> Mask:
    """moments: the accesses to blocks that are used before or after.

    A cached block that the present request needs is the last one to be evicted, and nothing the
    request brings evicts it; so it needs no look at the whole request in advance.

    heap: (-next request, access) in one number for every access that a block was kept at; it
    counts while this is the block's last access.
    """
    size, last = len(accesses) + 1, accesses.num_requests
    block_of, next_of = accesses.blocks.tolist(), _next_requests(accesses).tolist()
    kept_at: dict[int, int] = {}
    heap: list[int] = []
    found = np.zeros(len(accesses), dtype=bool)
    for access in moments.tolist():
        block, following = block_of[access], next_of[access]
        if block in kept_at:
            found[access] = True
            if following == last:
                del kept_at[block]
                continue
        elif following == last:
            continue
        elif len(kept_at) == capacity:
            while kept_at.get(block_of[heap[0] % size]) != heap[0] % size:
                heappop(heap)
            furthest, victim = divmod(heap[0], size)
            if following >= -furthest:
                continue
            heappop(heap)
            del kept_at[block_of[victim]]
        kept_at[block] = access
        heappush(heap, -following * size + access)
    return found


def _next_requests(accesses: Accesses) -> Ints:
    """[A]: the next request with the same block, R where there is none."""
    following = accesses.following
    found = np.full(len(accesses), accesses.num_requests)
    later = following >= 0
    found[later] = accesses.requests[following[later]]
    return found
