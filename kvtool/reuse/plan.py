"""What to do with every token of a prompt: spans that tile it.

hit | compute | recompute  shift ... | compute | recompute  select ... | compute |
              '------ a run -------'           '------- a run --------'
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kvtool.cache.block_pool import BlockIds
from kvtool.reuse.repair import Repair
from kvtool.reuse.run import Run

HIT = "hit"  # exact, in place
SHIFT = "shift"  # a run's KV, moved and otherwise as it is
SELECT = "select"  # the same, but the forward pass computes num_selected of the tokens again
RECOMPUTE = "recompute"  # part of a run, computed again
COMPUTE = "compute"  # found nowhere
KINDS = (HIT, SHIFT, SELECT, RECOMPUTE, COMPUTE)
OF_RUNS = (SHIFT, SELECT, RECOMPUTE)


class Span(NamedTuple):
    """Prompt tokens [start, stop). run: of shift, select, recompute, an index into Plan.runs."""

    kind: str
    start: int
    stop: int
    run: int | None = None
    num_selected: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """spans tile [0, num_tokens); runs: by start, without overlap, behind the hit."""

    num_tokens: int
    spans: tuple[Span, ...]
    runs: tuple[Run, ...]

    @property
    def rows(self) -> BlockIds:
        """Positions to compute, ascending, int64; a forward pass adds those it selects."""
        ranges = [np.arange(0)] + [
            np.arange(span.start, span.stop)
            for span in self.spans
            if span.kind in (RECOMPUTE, COMPUTE)
        ]
        return np.concatenate(ranges, dtype=np.int64)

    @property
    def num_selected(self) -> int:
        return sum(span.num_selected for span in self.spans)

    @property
    def tokens_by_source(self) -> dict[str, int]:
        """kind -> tokens; they sum up to num_tokens."""
        counts = dict.fromkeys(KINDS, 0)
        for span in self.spans:
            counts[span.kind] += span.stop - span.start
        return counts

    def check_integrity(self) -> None:
        """Spans tile; those of runs lie inside their run and fill it; the last token is computed."""
        end, of_runs = 0, [0] * len(self.runs)
        for span in self.spans:
            assert span.start == end < span.stop, f"{span} does not continue {end}"
            end = span.stop
            assert (span.run is not None) == (span.kind in OF_RUNS), span
            if span.run is not None:
                run = self.runs[span.run]
                assert run.start <= span.start and span.stop <= run.stop, f"{span} leaves {run}"
                of_runs[span.run] += span.stop - span.start
            assert span.num_selected <= (span.stop - span.start) * (span.kind == SELECT), span
        assert end == self.num_tokens, f"spans end at {end}, not {self.num_tokens}"
        assert of_runs == [run.num_tokens for run in self.runs]
        assert self.spans[-1].kind in (COMPUTE, RECOMPUTE), "the last token is not computed"


def make_plan(
    num_tokens: int,
    num_hit: int,
    runs: Sequence[Run],
    repair: Repair,
    block_size: int,
    *,
    repaired: Collection[Run] = (),
) -> Plan:
    """num_hit: leading tokens with exact KV. runs: by start, without overlap, in
    [num_hit, num_tokens - 1), because the logits come from computing the last token. repaired:
    those of them that are used as they are."""
    end = min(num_hit, num_tokens - 1)
    spans = [Span(HIT, 0, end)]
    for index, run in enumerate(runs):
        assert end <= run.start and run.stop < num_tokens, f"{run} overlaps {spans[-1]}"
        spans.append(Span(COMPUTE, end, run.start))
        if run in repaired:
            spans.append(Span(SHIFT, run.start, run.stop, index))
        else:
            spans += _spans_of_run(run, index, repair, block_size)
        end = run.stop
    spans.append(Span(COMPUTE, end, num_tokens))
    return Plan(num_tokens, tuple(s for s in spans if s.start < s.stop), tuple(runs))


def _spans_of_run(run: Run, index: int, repair: Repair, block_size: int) -> list[Span]:
    spans, end = [], run.start
    for start, stop in [*repair.recomputed(run, block_size), (run.stop, run.stop)]:
        num_selected = repair.num_selected(start - end)
        kept = SELECT if num_selected else SHIFT
        spans += [
            Span(kept, end, start, index, num_selected),
            Span(RECOMPUTE, start, stop, index),
        ]
        end = stop
    return spans
