"""What `kvtool.analysis` computes, said again as plainly as possible and without its code.

A request is a list of blocks; a block is the tuple of everything from position 0 to its end, so
equal prefixes are equal blocks. weights[r][j]: tokens of a block.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

Block = tuple
Requests = list  # of lists of blocks


def blocks_of(symbols, size, namespace):
    """Full blocks only."""
    ends = range(size, len(symbols) + 1, size)
    return [(namespace, *symbols[:end]) for end in ends]


def longest_runs(resident):
    """Per request: how many leading blocks are resident."""
    return [next((i for i, hit in enumerate(row) if not hit), len(row)) for row in resident]


def unlimited(requests):
    seen, rows = set(), []
    for blocks in requests:
        rows.append([block in seen for block in blocks])
        seen |= set(blocks)
    return rows


def lru(requests, capacity):
    stack, rows = [], []  # most recent first
    for blocks in requests:
        rows.append([block in stack for block in blocks])
        for block in reversed(blocks):
            if block in stack:
                stack.remove(block)
            stack.insert(0, block)
        del stack[capacity:]
    return rows


def ttl(requests, times, capacity, seconds):
    stack, last_use, rows = [], {}, []
    for blocks, now in zip(requests, times):
        stack = [block for block in stack if now - last_use[block] <= seconds]
        rows.append([block in stack for block in blocks])
        for block in reversed(blocks):
            if block in stack:
                stack.remove(block)
            stack.insert(0, block)
            last_use[block] = now
        del stack[capacity:]
    return rows


def fifo(requests, capacity):
    queue, rows = [], []  # oldest first
    for blocks in requests:
        rows.append([block in queue for block in blocks])
        for block in blocks:
            if block not in queue:
                queue.append(block)
                if len(queue) > capacity:
                    del queue[0]
    return rows


def lfu(requests, capacity):
    cache, rows, clock = {}, [], 0  # block -> [uses, last use]
    for blocks in requests:
        rows.append([block in cache for block in blocks])
        for block in blocks:
            clock += 1
            if block not in cache and len(cache) == capacity:
                del cache[min(cache, key=lambda b: cache[b])]
            uses = cache[block][0] if block in cache else 0
            cache[block] = [uses + 1, clock]
    return rows


class Use(NamedTuple):
    last_use: int
    hits: int
    priority: int


def leaves_first(requests, priorities, capacity, rank):
    """The engine: one request at a time, its own blocks are held, of others only leaves go."""
    cache, rows = {}, []
    for now, (blocks, priority) in enumerate(zip(requests, priorities)):
        rows.append([block in cache for block in blocks])
        for block in blocks:
            if block in cache:
                old = cache[block]
                cache[block] = Use(now, old.hits + 1, max(old.priority, priority))
        for block in blocks:
            if block in cache:
                continue
            if len(cache) == capacity:
                others = [b for b in cache if cache[b].last_use != now]
                leaves = [b for b in others if not any(is_behind(c, b) for c in cache)]
                if not leaves:
                    break
                del cache[min(leaves, key=lambda b: rank(cache[b]))]
            cache[block] = Use(now, 0, priority)
    return rows


def is_behind(block, other):
    return len(block) > len(other) and block[: len(other)] == other


def slru(use):
    return use.hits > 0, use.last_use


def priority(use):
    return use.priority, use.last_use


def next_request(requests, r, block):
    later = (i for i in range(r + 1, len(requests)) if block in requests[i])
    return next(later, len(requests))


def belady(requests, capacity):
    """cache: block -> (next request, minus the moment it was used)."""
    cache, rows, clock = {}, [], 0
    for r, blocks in enumerate(requests):
        rows.append([block in cache for block in blocks])
        for block in blocks:
            clock += 1
            following = next_request(requests, r, block)
            was_there = cache.pop(block, None) is not None
            if following == len(requests):
                continue
            if not was_there and len(cache) == capacity:
                furthest = max(cache, key=lambda b: cache[b])
                if following >= cache[furthest][0]:
                    continue
                del cache[furthest]
            cache[block] = following, -clock
    return rows


def most_hits(requests, capacity):
    """Over all that any policy could do: which blocks to keep after each request."""
    from itertools import combinations

    states = {frozenset(): 0}  # what is cached -> most hits so far
    for blocks in requests:
        after = {}
        for cached, hits in states.items():
            hits += sum(block in cached for block in blocks)
            pool = cached | set(blocks)
            for count in range(min(capacity, len(pool)) + 1):
                for kept in map(frozenset, combinations(sorted(pool, key=repr), count)):
                    after[kept] = max(after.get(kept, 0), hits)
        states = after
    return max(states.values())


def capacity_for(requests, share):
    """The fewest blocks at which LRU has this share of the hits without a limit."""
    ceiling = sum(map(sum, unlimited(requests)))
    if not ceiling:
        return None
    return next(
        capacity
        for capacity in range(1, 10_000)
        if sum(map(sum, lru(requests, capacity))) >= Fraction(share) * ceiling
    )


def common_prefix(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def moved_places(prompt, first, donors, size, min_run, *, aligned):
    """{(start, stop, delta)}: maximal stretches of prompt[first:-1] that equal a donor's, hold a
    whole block of the donor and at least min_run tokens. aligned: whole blocks of both only."""
    end, found = len(prompt) - 1, set()
    for donor in donors:
        for delta in range(-len(donor), len(prompt)):
            if aligned and delta % size:
                continue
            equal = [
                at
                for at in range(first, end)
                if 0 <= at - delta < len(donor) and prompt[at] == donor[at - delta]
            ]
            for start, stop in stretches(equal):
                inner = range(-(-(start - delta) // size), (stop - delta) // size)
                if not inner:
                    continue
                if aligned:
                    start, stop = inner[0] * size + delta, (inner[-1] + 1) * size + delta
                if stop - start >= min_run:
                    found.add((start, stop, delta))
    return found


def stretches(places):
    runs = []
    for at in places:
        if runs and runs[-1][1] == at:
            runs[-1][1] = at + 1
        else:
            runs.append([at, at + 1])
    return runs
