"""An arm's forward passes: lay its plan out as a table, choose tokens, compute the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from benchmarks.quality.arms import Arm
from benchmarks.quality.bench import Bench, Positions
from benchmarks.quality.case import Case
from benchmarks.quality.choice import choose_tokens
from benchmarks.quality.donors import slots
from kvtool.cache.block_table import Entry
from kvtool.reuse.plan import HIT, RECOMPUTE, SELECT, SHIFT, Plan, make_plan
from kvtool.reuse.probe import make_probe
from kvtool.reuse.repair import Repair, parse_repair
from kvtool.reuse.run import Run

Blocks = Sequence[int]


class Result(NamedTuple):
    """logits: of the scored rows. num_recomputed: tokens of runs that were computed again;
    probe_row_layers: what it took to choose them, in rows times layers."""

    logits: torch.Tensor
    num_recomputed: int
    probe_row_layers: float


def plan_of(case: Case, arm: Arm, runs: Sequence[Run], block_size: int) -> Plan:
    """Of the prompt without its answer. What stands in front of the first run is exact."""
    leading = parse_repair(arm.leading)
    plan = make_plan(case.num_prompt, runs[0].start, runs, leading, block_size)
    if arm.select is None:
        return plan
    choice = Repair(arm.select, arm.share)
    spans = (
        span._replace(kind=SELECT, num_selected=choice.num_selected(span.stop - span.start))
        if span.kind == SHIFT
        else span
        for span in plan.spans
    )
    return Plan(plan.num_tokens, tuple(spans), plan.runs)


def run_arm(bench: Bench, case: Case, arm: Arm, runs: Sequence[Run], exact: Blocks) -> Result:
    """exact: the blocks of the target's own full computation, read in front of the first run."""
    plan = plan_of(case, arm, runs, bench.block_size)
    plan.check_integrity()
    table = _lay_out(bench, case, plan, exact, arm.rotated)
    tokens, pending = case.tokens, _Pending()
    chosen: dict[int, Positions] = {}  # start of a select span -> what to compute of it
    num_recomputed, probe_row_layers = 0, 0.0
    for span in plan.spans:
        if span.kind == SELECT:
            if span.start not in chosen:
                if rows := pending.take():
                    bench.compute(tokens, np.concatenate(rows), table, 1)
                assert arm.select is not None
                probe = make_probe(plan, arm.select, span.start)
                inputs = bench.inputs(tokens, probe.positions, table)
                choice = choose_tokens(bench.paged, arm.select, arm.granule, inputs, probe)
                starts = (candidates.start for candidates in probe.candidates)
                chosen.update(zip(starts, choice.positions))
                probe_row_layers += choice.row_layers
            pending.add(chosen[span.start])
            num_recomputed += len(chosen[span.start])
        elif span.kind not in (HIT, SHIFT):
            pending.add(np.arange(span.start, span.stop))
            num_recomputed += (span.stop - span.start) * (span.kind == RECOMPUTE)
    pending.add(np.arange(case.num_prompt, len(tokens)))
    logits = bench.compute(tokens, np.concatenate(pending.take()), table, case.num_scored)
    return Result(logits, num_recomputed, probe_row_layers)


class _Pending:
    """Rows, ascending, whose KV nobody has asked for yet."""

    def __init__(self) -> None:
        self._rows: list[Positions] = []

    def add(self, rows: Positions) -> None:
        if len(rows):
            self._rows.append(rows)

    def take(self) -> list[Positions]:
        rows, self._rows = self._rows, []
        return rows


def _lay_out(bench: Bench, case: Case, plan: Plan, exact: Blocks, rotated: bool) -> list[Entry]:
    """A table over the prompt and its answer."""
    table: list[Entry] = []
    for span in plan.spans:
        run = plan.runs[span.run] if span.run is not None else None
        if span.kind == HIT:
            table += bench.entries(exact, 0, span.stop)
        elif run is not None and span.kind == SHIFT:
            table += moved_entries(run.cut(span.start, span.stop, bench.block_size), bench, rotated)
        elif run is not None and span.kind == SELECT:
            table += _private_copy(bench, run.cut(span.start, span.stop, bench.block_size))
        else:
            stop = len(case.tokens) if span.stop == case.num_prompt else span.stop
            table += bench.entries(bench.take(stop - span.start), span.start, stop)
    return table


def moved_entries(run: Run, bench: Bench, rotated: bool = True) -> list[Entry]:
    """The donor's own blocks, read where the run stands."""
    entries, offset, start = [], run.offset, run.start
    for block in run.blocks:
        length = min(bench.block_size - offset, run.stop - start)
        entries.append(Entry(block, offset, start, length, run.delta if rotated else 0))
        offset, start = 0, start + length
    return entries


def _private_copy(bench: Bench, run: Run) -> list[Entry]:
    """Turned to where it is read, so that single tokens can be overwritten."""
    blocks = bench.take(run.num_tokens)
    bench.copy_moved(slots(run, bench.block_size), blocks, run.delta)
    return bench.entries(blocks, run.start, run.stop)
