"""What lies between the runs of a sequence: the positions whose KV is its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvtool.reuse.run import Run


def gaps(start: int, stop: int, runs: Sequence[Run]) -> Iterator[tuple[int, int]]:
    """The parts of [start, stop) outside of the runs, which are in order and without overlap.

    Neither end lies inside a run.
    """
    for run in runs:
        if start <= run.start < stop:
            if start < run.start:
                yield start, run.start
            start = run.stop
    if start < stop:
        yield start, stop


def num_blocks_between(
    start: int, stop: int, runs: Sequence[Run], block_size: int, room: int
) -> int:
    """Blocks that the gaps of [start, stop) take, each from slot 0 of a block of its own on.

    room: free slots right before `start`, which a gap that begins there fills first.
    """
    if not runs:  # nearly always
        return -(-max(0, stop - start - room) // block_size)
    return sum(
        -(-max(0, end - first - (room if first == start else 0)) // block_size)
        for first, end in gaps(start, stop, runs)
    )
