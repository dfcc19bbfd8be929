"""From rows of cases to what they say: means by arm, and the ratios that decide."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.quality.interval import Ratio, mean_interval, paired_ratio
from benchmarks.quality.results import Measured

POOLED = "pooled"
EVERY_ARM = "cases with every arm"
# (arm, compared with): each ratio of mean KL is reported with its interval.
RATIOS = (
    ("unrotated", "none"),
    ("left-out", "none"),
    ("first:32", "none"),
    ("auto", "none"),
    ("attn:0.15", "none"),
    ("attn:0.15", "auto"),
    ("attn:0.15", "vdev:0.15"),
    ("attn:0.15", "kdev:0.15"),
    ("first:16+attn:0.1", "attn:0.15"),
    ("attn:0.15", "attn16:0.15"),
    ("vdev:0.15", "vdev16:0.15"),
    ("kdev:0.15", "kdev16:0.15"),
    ("similar@2/first:32", "recent/first:32"),
    ("similar@4/first:32", "recent/first:32"),
    ("consensus@2/first:32", "recent/first:32"),
    ("consensus@4/first:32", "recent/first:32"),
    ("consensus@4/first:32", "similar@4/first:32"),
    ("similar@4/first:32", "auto"),
    ("consensus@4/first:16+attn:0.1", "first:16+attn:0.1"),
)


def summaries(measured: Sequence[Measured]) -> list[dict[str, Any]]:
    """All pooled; the cases that every arm was measured on; one a situation."""
    names = {name for case in measured for name in case.arms}
    scopes = {POOLED: measured, EVERY_ARM: [case for case in measured if names == set(case.arms)]}
    for situation in dict.fromkeys(case.situation for case in measured):
        scopes[situation] = [case for case in measured if case.situation == situation]
    return [_summary(scope, cases) for scope, cases in scopes.items() if cases]


def _summary(scope: str, cases: Sequence[Measured]) -> dict[str, Any]:
    names = list(dict.fromkeys(name for case in cases for name in case.arms))
    ratios = {f"{one} / {other}": _ratio(cases, one, other) for one, other in RATIOS}
    return {
        "situation": scope,
        "arms": {name: _arm(cases, name) for name in names},
        "ratios": {name: ratio._asdict() for name, ratio in ratios.items() if ratio},
    }


def _arm(cases: Sequence[Measured], name: str) -> dict[str, Any]:
    found = [case for case in cases if name in case.arms]
    kls: dict[str, list[float]] = {}
    for case in found:
        kls.setdefault(case.prompt, []).append(case.arms[name]["kl"])

    def mean(field: str) -> float:
        return round(float(np.mean([case.arms[name][field] for case in found])), 4)

    return {
        "cases": len(found),
        "mean_kl": _digits(statistics.mean(kl for case in kls.values() for kl in case)),
        "interval": [_digits(bound) for bound in mean_interval(kls)],
        "median_kl": _digits(statistics.median(kl for case in kls.values() for kl in case)),
        "top1": mean("top1"),
        "delta_nll": mean("delta_nll"),
        "cost": mean("cost"),
        "time": mean("time"),
    }


def _ratio(cases: Sequence[Measured], one: str, other: str) -> Ratio | None:
    """Over the cases that have both arms."""
    pairs: dict[str, list[tuple[float, float]]] = {}
    for case in cases:
        if one in case.arms and other in case.arms:
            pair = case.arms[one]["kl"], case.arms[other]["kl"]
            pairs.setdefault(case.prompt, []).append(pair)
    if not pairs:
        return None
    found = paired_ratio(pairs)
    return found._replace(
        ratio=_digits(found.ratio), low=_digits(found.low), high=_digits(found.high)
    )


def _digits(number: float) -> float:
    return float(f"{number:.4g}")


def text(summary: dict[str, Any]) -> str:
    """A table for the terminal."""
    lines = [f"{summary['situation']}", f"  {'arm':32}{'cases':>6}{'cost':>7}{'time':>7}"
             f"{'mean KL':>10}{'95 %':>20}{'median':>10}{'top-1':>7}{'dNLL':>9}"]  # fmt: skip
    for name, arm in summary["arms"].items():
        low, high = arm["interval"]
        lines.append(
            f"  {name:32}{arm['cases']:6}{arm['cost']:7.3f}{arm['time']:7.3f}{arm['mean_kl']:10.5f}"
            f"{f'{low:.5f}..{high:.5f}':>20}{arm['median_kl']:10.5f}{arm['top1']:7.3f}"
            f"{arm['delta_nll']:9.4f}"
        )
    for name, ratio in summary["ratios"].items():
        lines.append(
            f"  {name:58}{ratio['ratio']:7.3f}  95 % {ratio['low']:.3f}..{ratio['high']:.3f}"
            f"  ({ratio['num_prompts']} prompts, {ratio['num_cases']} cases)"
        )
    return "\n".join(lines)
