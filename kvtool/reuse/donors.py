"""Which of several copies of the same text donates its KV: the one whose rank is highest.

A ranking is a pure function of a copy and of the prompt tokens in front of the place it is wanted
at. The context a donor was computed in is part of its KV, so a similar one is worth as much as a
repair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kvtool.cache.block_pool import Tokens
from kvtool.reuse.donor_source import DonorSource
from kvtool.reuse.overlaps import overlapping
from kvtool.reuse.run import Run

CONTEXT_TOKENS = 256
# A copy often agrees with the prompt in a few chance tokens more at an edge. So that this does not
# decide, one that is up to 16 tokens shorter, but no more than an eighth, is as good.
SLACK_TOKENS = 16
SLACK_SHARE = 8

Rank = tuple[float, ...]


class Copy(NamedTuple):
    """context: the last CONTEXT_TOKENS tokens in front of the run where it was computed.
    num_merged: exact copies it is the mean of, on average over its blocks."""

    run: Run
    context: Tokens
    last_use: int
    num_merged: float = 1


Ranking = Callable[[Copy, Tokens], Rank]


def similar(copy: Copy, target: Tokens) -> Rank:
    """Largest overlap (Jaccard index) of the two contexts' token sets, then most recent use."""
    here, there = set(copy.context.tolist()), set(target.tolist())
    return len(here & there) / max(1, len(here | there)), copy.last_use


def recent(copy: Copy, target: Tokens) -> Rank:
    """Most recent use."""
    return (copy.last_use,)


def consensus(copy: Copy, target: Tokens) -> Rank:
    """The mean of most copies, then as `similar`."""
    return (copy.num_merged, *similar(copy, target))


CONSENSUS = "consensus"
DONORS = {
    "similar": "kvtool.reuse.donors:similar",
    "recent": "kvtool.reuse.donors:recent",
    CONSENSUS: "kvtool.reuse.donors:consensus",
}


def slack_of(run: Run) -> int:
    """How many tokens shorter a copy may be that stands in for this run."""
    return min(SLACK_TOKENS, run.num_tokens // SLACK_SHARE)


def choose_donors(
    chosen: Sequence[Run],
    runs: Sequence[Run],
    tokens: Tokens,
    sources: Sequence[DonorSource],
    ranking: Ranking,
    min_run: int,
) -> list[Run]:
    """Each chosen run, or another of `runs` in its place that ranks higher there.

    The other one holds all of it but for the slack, and at least min_run tokens. At equal
    ranks the chosen one stays, else the first found takes its place.
    """
    places = [(run.start, run.stop) for run in chosen]
    best = []
    for own, (start, stop, near) in zip(chosen, overlapping(places, runs)):
        shortest = max(min_run, own.num_tokens - slack_of(own))
        copies = _cut_copies(near, start, stop, shortest, sources[0].block_size)
        if len(copies) > 1:
            copies.sort(key=own.__ne__)
            target = tokens[max(0, start - CONTEXT_TOKENS) : start]
            own = max(copies, key=lambda run: ranking(_as_copy(run, sources), target))
        best.append(own)
    return best


def _cut_copies(
    near: list[Run], start: int, stop: int, shortest: int, block_size: int
) -> list[Run]:
    places = ((run, max(start, run.start), min(stop, run.stop)) for run in near)
    return [run.cut(a, b, block_size) for run, a, b in places if b - a >= shortest]


def _as_copy(run: Run, sources: Sequence[DonorSource]) -> Copy:
    first = run.blocks[0]
    source = next(source for source in sources if first in source)
    context = source.context(first, run.offset, CONTEXT_TOKENS)
    return Copy(run, context, source.last_use(first), source.num_merged(run.blocks))
