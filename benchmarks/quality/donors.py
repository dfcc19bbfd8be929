"""Where a reused piece takes its KV from: one of the earlier contexts, or the mean of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.quality.arms import CONSENSUS, OWN, Arm
from benchmarks.quality.bench import Bench, Positions
from benchmarks.quality.case import Case, Context
from kvtool.cache.block_pool import Tokens
from kvtool.names import lookup
from kvtool.reuse.donors import CONTEXT_TOKENS, DONORS, Copy
from kvtool.reuse.run import Run


class Stored(NamedTuple):
    """An earlier context, computed by itself; blocks hold it from position 0 on."""

    kind: str
    context: Context
    blocks: tuple[int, ...]


class Donated(NamedTuple):
    """One reused piece: its run, and the kinds of context that it was taken from."""

    run: Run
    kinds: tuple[str, ...]


def store(bench: Bench, case: Case) -> list[Stored]:
    """All earlier contexts, oldest first."""
    stored = []
    for kind, whole in case.earlier:
        context = whole.until_last_named()
        tokens = context.tokens
        blocks = bench.take(len(tokens))
        table = bench.entries(blocks, 0, len(tokens))
        bench.compute(tokens, np.arange(len(tokens)), table, 1)
        stored.append(Stored(kind, context, blocks))
    return stored


def donate(bench: Bench, case: Case, arm: Arm, stored: Sequence[Stored]) -> list[Donated]:
    """A run for every reused piece of the target, by start."""
    if arm.donor == OWN:
        allowed = [donor for donor in stored if donor.kind == OWN]
    else:
        allowed = list(stored[-arm.contexts :])
    donated = []
    for name, (start, stop) in case.target.places().items():
        runs = [_run(donor, name, start, stop, bench.block_size) for donor in allowed]
        if arm.donor == CONSENSUS:
            kinds = tuple(donor.kind for donor in allowed)
            donated.append(Donated(_mean(bench, runs), kinds))
            continue
        ranks = [_rank(arm, case, name, i, *pair) for i, pair in enumerate(zip(runs, allowed))]
        best = ranks.index(max(ranks))
        donated.append(Donated(runs[best], (allowed[best].kind,)))
    return donated


def _run(donor: Stored, name: str, start: int, stop: int, block_size: int) -> Run:
    """The whole donor as one run is cut to where the piece stands in it."""
    at, end = donor.context.places()[name]
    assert end - at == stop - start
    first, offset = divmod(at, block_size)
    last = (end - 1) // block_size
    return Run(start, stop, start - at, donor.blocks[first : last + 1], offset)


def _rank(
    arm: Arm, case: Case, name: str, number: int, run: Run, donor: Stored
) -> tuple[float, ...]:
    if arm.donor == OWN:
        return (0.0,)
    ranking = lookup(DONORS, arm.donor, "donor")
    before, target = (_in_front(context, name) for context in (donor.context, case.target))
    rank: tuple[float, ...] = ranking(Copy(run, before, number), target)
    return rank


def _in_front(context: Context, name: str) -> Tokens:
    start, _ = context.places()[name]
    return np.array(context.tokens[max(0, start - CONTEXT_TOKENS) : start], dtype=np.int32)


def _mean(bench: Bench, runs: Sequence[Run]) -> Run:
    """All copies turned to where the first of them stood (0 if any did), then averaged.

    A mean over a copy that began at position 0 holds some of its sink, so it counts as one.
    """
    home = min(run.start - run.delta for run in runs)
    copies = [bench.take(runs[0].num_tokens) for _ in runs]
    for run, blocks in zip(runs, copies):
        bench.copy_moved(slots(run, bench.block_size), blocks, home - (run.start - run.delta))
    out = copies[0]
    bench.mean(copies, out)
    return Run(runs[0].start, runs[0].stop, runs[0].start - home, out, 0)


def slots(run: Run, block_size: int) -> Positions:
    """Where the run's tokens are kept, in order."""
    places = np.arange(run.offset, run.offset + run.num_tokens)
    found: Positions = np.array(run.blocks)[places // block_size] * block_size + places % block_size
    return found
