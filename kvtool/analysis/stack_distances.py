"""The LRU cache of every capacity at once: stack distances (Mattson et al., 1970).

A request is looked up whole, then becomes the most recently used: its first block on top of the
stack, its last block below the others of it. So a chain is evicted from its tail, a block is
never above one in front of it, and the hits of a request are an unbroken run from its start.
"""

from __future__ import annotations

import numpy as np

from kvtool.analysis.accesses import Accesses, Ints

NEVER = np.iinfo(np.int64).max


def stack_distances(accesses: Accesses) -> Ints:
    """int64 [A]: the smallest capacity in blocks at which LRU hits; NEVER at first sight.

    It is the block's depth in the stack: above it lie the blocks in front of it, and all that
    was touched since. With time read tail first,

        touched since = distinct blocks so far - blocks last touched before

    and of all accesses before the block's own last one, those are out of date whose block was
    touched again by now: reuses k of earlier requests with previous[k] before previous[i].
    """
    times = _times(accesses)
    again = np.flatnonzero(accesses.previous >= 0)
    since = times[accesses.previous[again]]
    out_of_date = smaller_before(_ranks(since))
    seen = np.cumsum(accesses.previous < 0)
    starts = accesses.starts[accesses.requests[again]]
    num_seen = np.where(starts > 0, seen[starts - 1], 0)
    distances = np.full(len(accesses), NEVER)
    distances[again] = num_seen - (since - out_of_date)
    return distances


def _times(accesses: Accesses) -> Ints:
    """[A]: the order of touches, where a request touches its last block first."""
    ends = accesses.starts[1:][accesses.requests]
    return ends - 1 - accesses.depths


def _ranks(values: Ints) -> Ints:
    ranks = np.empty_like(values)
    ranks[np.argsort(values)] = np.arange(len(values))
    return ranks


def smaller_before(values: Ints) -> Ints:
    """For each of a permutation of 0 ... n - 1: how many values in front of it are smaller.

    One pass a bit, highest first, over values sorted by their higher bits and otherwise in
    order: those with this bit count the ones without it in front of them that share all higher
    bits. Since all values occur, the group of those begins at its own smallest value.
    """
    counts, order = np.zeros(len(values), dtype=np.int64), np.arange(len(values))
    for bit in reversed(range(max(0, len(values) - 1).bit_length())):
        current = values[order]
        group = current >> (bit + 1) << (bit + 1)
        is_high = (current >> bit & 1).astype(bool)
        lows = np.concatenate([[0], np.cumsum(~is_high)])
        lows_before = lows[:-1] - lows[group]
        counts[order[is_high]] += lows_before[is_high]
        place = np.arange(len(values)) - group
        target = group + np.where(is_high, (1 << bit) + place - lows_before, lows_before)
        order[target] = order.copy()
    return counts
