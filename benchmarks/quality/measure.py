"""All arms of one case on one bench: a row of results."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.quality.arms import Arm
from benchmarks.quality.bench import Bench
from benchmarks.quality.case import Case
from benchmarks.quality.donors import Stored, donate, store
from benchmarks.quality.passes import plan_of, run_arm
from benchmarks.quality.score import Reference, cost
from kvtool.reuse.run import Run

Row = dict[str, Any]


def measure(bench: Bench, case: Case, arms: Sequence[Arm]) -> Row:
    """The full recompute and the earlier contexts are computed once for all arms."""
    with bench.scratch():
        tokens = case.tokens
        exact = bench.take(len(tokens))
        start = time.perf_counter()
        table = bench.entries(exact, 0, len(tokens))
        logits = bench.compute(tokens, np.arange(len(tokens)), table, case.num_scored)
        seconds = time.perf_counter() - start
        reference = Reference.of(logits, case)
        stored = store(bench, case) if any(arm.reuse for arm in arms) else []
        found = {}
        for arm in arms:
            with bench.scratch():
                found[arm.name] = _measure_arm(bench, case, arm, stored, exact, reference)
    return {
        "prompt": case.prompt,
        "situation": case.situation,
        "prompt_tokens": case.num_prompt,
        "reused_tokens": case.num_reused,
        "runs": len(case.target.places()),
        "scored_rows": case.num_scored,
        "earlier_contexts": [earlier.kind for earlier in case.earlier],
        "full_ms": round(1000 * seconds, 1),
        "arms": found,
    }


def _measure_arm(
    bench: Bench,
    case: Case,
    arm: Arm,
    stored: Sequence[Stored],
    exact: Sequence[int],
    reference: Reference,
) -> Row:
    if not arm.reuse:
        tokens = case.tokens_without
        table = bench.entries(bench.take(len(tokens)), 0, len(tokens))
        logits = bench.compute(tokens, np.arange(len(tokens)), table, case.num_scored)
        return {**_rounded(reference.score(logits)._asdict()), "cost": 0.0}
    donated = donate(bench, case, arm, stored)
    start = time.perf_counter()
    result = run_arm(bench, case, arm, [piece.run for piece in donated], exact)
    seconds = time.perf_counter() - start
    return {
        **_rounded(reference.score(result.logits)._asdict()),
        "cost": round(cost(result, case, len(bench.paged.layers)), 4),
        "ms": round(1000 * seconds, 1),
        "donors": sorted({kind for piece in donated for kind in piece.kinds}),
    }


def _rounded(numbers: dict[str, float]) -> dict[str, float]:
    """Six significant digits."""
    return {name: float(f"{number:.6g}") for name, number in numbers.items()}


def num_rows(case: Case, arms: Sequence[Arm], block_size: int) -> int:
    """Rows that `measure` computes, for an estimate of its time; probes count as one pass."""
    rows = len(case.tokens)
    if any(arm.reuse for arm in arms):
        rows += sum(len(e.context.until_last_named().tokens) for e in case.earlier)
    return rows + sum(_rows_of(case, arm, block_size) for arm in arms)


def _rows_of(case: Case, arm: Arm, block_size: int) -> int:
    if not arm.reuse:
        return len(case.tokens_without)
    places = case.target.places().values()
    runs = [Run(start, stop, 1, (), 0) for start, stop in places]
    plan = plan_of(case, arm, runs, block_size)
    rows = len(plan.rows) + plan.num_selected + len(case.answer)
    return rows + (len(case.question) if arm.select == "attn" else 0)


def blocks_needed(case: Case, block_size: int) -> int:
    """Of a bench that measures this case: every table, the copies of a mean, an arm's own rows."""
    lengths = [len(case.tokens)] * 3 + [
        len(e.context.until_last_named().tokens) + case.num_reused for e in case.earlier
    ]
    return sum(-(-length // block_size) + 8 for length in lengths)
