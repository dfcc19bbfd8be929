"""Sums over prompts and the verdict."""

from __future__ import annotations

import math

import pytest

from kvtool.gate.cases import FROM_START, MOVED, SITUATIONS
from kvtool.gate.score import ALL, CaseResult, Limits, Score, failures, scores


def result(situation: str = MOVED, **fields: object) -> CaseResult:
    default = CaseResult(situation, 400, 150, 50, 10, 0.01, 0.9, 0.002)
    return default._replace(**fields)


def by_situation(*results: CaseResult) -> dict[str, Score]:
    return {score.situation: score for score in scores(results)}


def test_means_are_over_rows_and_shares_over_tokens() -> None:
    found = by_situation(
        result(rows=10, kl=0.01, top1=1.0, nll_change=0.3),
        result(
            rows=30, kl=0.05, top1=0.8, nll_change=-0.1, shifted_tokens=100, recomputed_tokens=0
        ),
        result(FROM_START, rows=40, kl=0.0, top1=1.0, nll_change=0.0),
    )
    moved, pooled = found[MOVED], found[ALL]
    assert moved.kl_mean == pytest.approx((10 * 0.01 + 30 * 0.05) / 40)
    assert moved.top1_agreement == pytest.approx(0.85)
    assert moved.nll_change == pytest.approx(0.0)
    assert (moved.cases, moved.prompt_tokens, moved.moved_tokens) == (2, 800, 300)
    assert moved.recompute_share == pytest.approx(50 / 300)
    assert pooled.kl_mean == pytest.approx((10 * 0.01 + 30 * 0.05) / 80)
    assert pooled.cases == 3
    assert list(found) == [*SITUATIONS, ALL]


def test_a_prompt_without_moved_text_says_nothing() -> None:
    unmoved = result(shifted_tokens=0, recomputed_tokens=0, kl=0.0, top1=1.0)
    found = by_situation(unmoved, result(kl=0.04))
    assert found[MOVED].kl_mean == pytest.approx(0.04)
    assert (found[MOVED].cases, found[MOVED].unmoved_cases) == (1, 1)
    nothing = by_situation(unmoved)[ALL]
    assert nothing.kl_mean is None and nothing.recompute_share is None
    assert failures(nothing, Limits(kl=math.inf, top1=0)) == [
        "no text of the probe set was moved, so nothing was measured"
    ]


@pytest.mark.parametrize(
    ("kl", "top1", "reasons"),
    [
        (0.02, 0.92, []),
        (0.0201, 0.92, ["mean KL 0.0201 is above 0.02"]),
        (0.0, 0.9199, ["top-1 agreement 0.9199 is below 0.92"]),
        (math.nan, math.nan, ["mean KL nan is above 0.02", "top-1 agreement nan is below 0.92"]),
    ],
)
def test_the_limits_are_inclusive(kl: float, top1: float, reasons: list[str]) -> None:
    assert failures(by_situation(result(kl=kl, top1=top1))[ALL], Limits()) == reasons
