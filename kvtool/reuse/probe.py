"""Which rows a forward pass needs to choose the tokens of a moved run that are computed again.

    [context][candidates of run 1][between][candidates of run 2][queries ......]
     in place  stale KV            rows      stale KV            rows, the ones that count

`attn` asks the prompt's own rows behind the runs what they look at. To compute a row, the KV of
every row in front of it is needed, so the rows are taken from the front: rows at the end of a
long tail would cost the whole tail a second time. Asking the rows behind all runs is as good as
asking all fresh rows or better (measured on two models), and runs that few rows keep apart share
one pass. `vdev` and `kdev` look at the run's own tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kvtool.cache.block_pool import BlockIds
from kvtool.reuse.plan import SELECT, Plan

# Rows that count, and rows between runs of one pass, at most. Questions measured had 20 to 100;
# a pass never computes more than 1024 rows, the price of a run of that length.
QUERY_ROWS = 512


class Candidates(NamedTuple):
    """Prompt tokens [start, stop) of a run that begins at run_start; num_selected are wanted."""

    start: int
    stop: int
    run_start: int
    num_selected: int


class Probe(NamedTuple):
    """positions: int64 [T], the rows to feed, ascending. candidates: by start."""

    positions: BlockIds
    candidates: tuple[Candidates, ...]


def make_probe(plan: Plan, rule: str, first: int) -> Probe:
    """For a prompt whose KV below `first`, where a span to select from begins, is in place.

    Spans behind those that the probe covers are for a later one.
    """
    ahead = [
        Candidates(span.start, span.stop, plan.runs[span.run].start, span.num_selected)
        for span in plan.spans
        if span.kind == SELECT and span.run is not None and span.start >= first
    ]
    assert ahead and ahead[0].start == first, f"nothing to select at {first}"
    if rule != "attn":
        return Probe(np.arange(first, ahead[0].stop, dtype=np.int64), (ahead[0],))
    rows = plan.rows[np.searchsorted(plan.rows, first) :]
    between = np.searchsorted(rows, [candidates.start for candidates in ahead])
    covered = int(np.count_nonzero(between <= QUERY_ROWS))
    end = int(between[covered - 1]) + QUERY_ROWS
    return Probe(rows[:end], tuple(ahead[:covered]))
