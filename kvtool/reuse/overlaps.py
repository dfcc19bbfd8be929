"""Which runs reach into which ranges of a prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvtool.reuse.run import Run


def overlapping(
    ranges: Sequence[tuple[int, int]], runs: Sequence[Run]
) -> Iterator[tuple[int, int, list[Run]]]:
    """(start, stop, runs that share a token with it) for disjoint ranges in order.

    One sweep: a run is looked at once when it begins and once per range that it reaches.
    """
    waiting = sorted(runs, key=lambda run: run.start, reverse=True)
    active: list[Run] = []
    for start, stop in ranges:
        while waiting and waiting[-1].start < stop:
            active.append(waiting.pop())
        active = [run for run in active if run.stop > start]
        yield start, stop, list(active)
