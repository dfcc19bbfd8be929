"""Which positions of a request come next."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kvtool.cache.block_pool import BlockIds
from kvtool.config import SchedulerConfig
from kvtool.engine.chunking import next_chunk
from kvtool.engine.request import Request
from kvtool.reuse.probe import Candidates, make_probe


class NextRows(NamedTuple):
    """positions: int64, ascending, at least one. candidates: if there are any, the rows are not
    fed but ask which tokens of these spans are computed again."""

    positions: BlockIds
    candidates: tuple[Candidates, ...] = ()

    @property
    def end(self) -> int:
        return int(self.positions[-1]) + 1


def next_rows(request: Request, budget: int, config: SchedulerConfig, rule: str) -> NextRows:
    """At most `budget` positions from the request's frontier on, runs left out; rows that only
    ask may be more. rule: the repair's."""
    assert request.kv is not None
    start, shift = request.num_computed_tokens, request.kv.shift
    if shift is None or start >= shift.plan.num_tokens:
        return NextRows(np.arange(start, start + next_chunk(request, budget, config)))
    rows = shift.rows[np.searchsorted(shift.rows, start) :]
    first = shift.next_selection(start)
    if first is not None:
        rows = rows[: np.searchsorted(rows, first)]
        if not len(rows):
            return NextRows(*make_probe(shift.plan, rule, first))
    return NextRows(rows[:budget])
