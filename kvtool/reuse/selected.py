"""What a plan becomes once a forward pass has chosen which tokens of a run it computes again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from kvtool.cache.block_pool import BlockIds
from kvtool.reuse.plan import RECOMPUTE, SELECT, SHIFT, Plan, Span


def with_selected(plan: Plan, selected: Mapping[int, BlockIds]) -> Plan:
    """selected: start of a span to select from -> its chosen positions, int64, ascending.

    Each such span falls into spans of kinds shift and recompute; others stay.
    """
    spans: list[Span] = []
    for span in plan.spans:
        if span.kind == SELECT and span.start in selected:
            spans += _split(span, selected[span.start].tolist())
        else:
            spans.append(span)
    return Plan(plan.num_tokens, tuple(spans), plan.runs)


def _split(span: Span, chosen: Sequence[int]) -> list[Span]:
    is_chosen = np.zeros(span.stop - span.start + 2, dtype=bool)
    is_chosen[np.array(chosen, dtype=np.int64) - span.start + 1] = True
    assert len(chosen) == span.num_selected == np.count_nonzero(is_chosen[1:-1]), span
    edges = np.flatnonzero(np.diff(is_chosen[1:-1])) + 1 + span.start
    return [
        Span(RECOMPUTE if is_chosen[start - span.start + 1] else SHIFT, start, stop, span.run)
        for start, stop in pairwise([span.start, *edges.tolist(), span.stop])
    ]
