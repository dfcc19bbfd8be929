"""Which runs of a prompt are used: a set that overlaps nowhere and saves the most tokens.

Weighted interval scheduling (Kleinberg and Tardos, Algorithm Design, 6.1) where an interval may
be cut at the edges of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from kvtool.reuse.overlaps import overlapping
from kvtool.reuse.repair import Repair
from kvtool.reuse.run import Run

_NOWHERE = -1


def choose(runs: Sequence[Run], repair: Repair, min_run: int, block_size: int) -> list[Run]:
    """The runs of greatest weight, by start: weight = tokens - tokens that repair computes again.

    Of equal weight: the fewest runs. Runs are cut at the edges of runs that do not lie inside
    others, and keep at least min_run tokens; a run that saves nothing is not used. Where several
    hold the same range, one without a sink in front is taken, then one with delta 0.
    """
    chosen = []
    ranges = _best_ranges(_undominated(runs), repair, min_run, block_size)
    for start, stop, near in overlapping(ranges, runs):
        copies = [
            run.cut(start, stop, block_size)
            for run in near
            if run.start <= start and stop <= run.stop
        ]
        chosen.append(min(copies, key=lambda run: (run.at_sink, run.delta != 0)))
    return chosen


def _undominated(runs: Sequence[Run]) -> list[Run]:
    """Runs by start without those that lie inside one that costs no more in their place."""
    kept: list[Run] = []
    reach = {True: 0, False: 0}  # by at_sink: how far a run could stand in for the next one
    start = _NOWHERE
    for run in sorted(runs, key=lambda run: (run.start, run.at_sink, -run.stop)):
        if run.start > start:  # cut here, an earlier run has its sink behind it
            reach = dict.fromkeys(reach, max(reach.values()))
            start = run.start
        if run.stop > reach[run.at_sink]:
            kept.append(run)
            reach[True] = max(reach[True], run.stop)
            if not run.at_sink:
                reach[False] = max(reach[False], run.stop)
    return kept


def _best_ranges(
    runs: list[Run], repair: Repair, min_run: int, block_size: int
) -> list[tuple[int, int]]:
    """best[i]: (tokens saved, -number of ranges) of the best ranges in [0, edges[i]), the last of
    which begins at came_from[i], or is that of best[i - 1]."""
    edges = sorted({edge for run in runs for edge in (run.start, run.stop)})
    best, came_from = [(0, 0)] * len(edges), [_NOWHERE] * len(edges)
    clean, far = _reach(runs, edges)
    for i, start in enumerate(edges):
        if i and best[i - 1] > best[i]:
            best[i], came_from[i] = best[i - 1], _NOWHERE
        saved, count = best[i]
        j = i + 1
        while j < len(edges) and (stop := edges[j]) <= far[i]:
            length = stop - start
            gain = length - repair.cost(length, stop > clean[i], block_size)
            if length >= min_run and gain > 0 and (saved + gain, count - 1) > best[j]:
                best[j], came_from[j] = (saved + gain, count - 1), i
            j += 1
    return _backtrack(edges, came_from)


def _reach(runs: list[Run], edges: list[int]) -> tuple[list[int], list[int]]:
    """How far runs reach that hold each edge: those with no sink at the edge, and all."""
    index = {edge: i for i, edge in enumerate(edges)}
    clean, far = list(edges), list(edges)
    for run in runs:
        i = index[run.start]
        far[i] = max(far[i], run.stop)
        if not run.at_sink:
            clean[i] = max(clean[i], run.stop)
    far = list(accumulate(far, max))
    # Behind its first token no run has a sink.
    clean = [max(own, before) for own, before in zip(clean, [0, *far])]
    return clean, far


def _backtrack(edges: list[int], came_from: list[int]) -> list[tuple[int, int]]:
    ranges = []
    i = len(edges) - 1
    while i > 0:
        if came_from[i] == _NOWHERE:
            i -= 1
        else:
            ranges.append((edges[came_from[i]], edges[i]))
            i = came_from[i]
    return ranges[::-1]
