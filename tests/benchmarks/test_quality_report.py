"""Intervals, rows that survive a stop, the summary and its plot."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import rows
from benchmarks.quality import results
from benchmarks.quality.interval import mean_interval, paired_ratio
from benchmarks.quality.plot import write_plot
from benchmarks.quality.results import Measured, Setup
from benchmarks.quality.summary import summaries, text

SETUP = Setup("model", "as published", "float32", "digest")


def test_a_constant_ratio_has_no_interval() -> None:
    dice = np.random.default_rng(1)
    pairs = {str(i): [(0.5 * kl, kl)] for i, kl in enumerate(dice.lognormal(size=20))}
    ratio = paired_ratio(pairs)
    assert (ratio.ratio, ratio.low, ratio.high) == pytest.approx((0.5, 0.5, 0.5))
    assert (ratio.num_prompts, ratio.num_cases) == (20, 20)


def test_a_ratio_is_one_of_means_and_the_same_every_time() -> None:
    pairs = {"a": [(1.0, 2.0), (1.0, 4.0)], "b": [(3.0, 2.0)], "c": [(1.0, 1.0)]}
    ratio = paired_ratio(pairs)
    assert ratio.ratio == pytest.approx(6 / 9)
    assert ratio.low < ratio.ratio < ratio.high
    assert ratio == paired_ratio(pairs)
    # every draw lies between the least and the greatest prompt
    assert ratio.low >= 2 / 6
    assert ratio.high <= 1.5


def test_cases_of_one_prompt_are_drawn_together() -> None:
    """Ten copies of a case say no more than one: the interval does not narrow."""
    dice = np.random.default_rng(2)
    values = {str(i): float(kl) for i, kl in enumerate(dice.lognormal(size=12))}
    once, often = ({p: [v] * n for p, v in values.items()} for n in (1, 10))
    assert mean_interval(often) == pytest.approx(mean_interval(once))


def test_the_interval_covers_the_mean_about_as_often_as_it_says() -> None:
    dice = np.random.default_rng(3)
    covered = 0
    for _ in range(100):
        low, high = mean_interval({str(i): [v] for i, v in enumerate(dice.normal(1, 0.2, 30))})
        covered += low <= 1 <= high
    assert 85 <= covered <= 99


def row(prompt: str, situation: str, **kls: float) -> dict[str, object]:
    arms = {name: {**arm(kl), "ms": 30.0} for name, kl in kls.items()}
    return {"prompt": prompt, "situation": situation, "full_ms": 120.0, "arms": arms}


def arm(kl: float) -> dict[str, float]:
    return {"kl": kl, "kl_median": kl, "top1": 0.9, "delta_nll": 0.1, "cost": 0.2, "time": 0.25}


def test_a_stopped_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "RESULTS", tmp_path)
    assert results.load(SETUP) == []
    results.save(SETUP, row("one", "moved", none=0.2, auto=0.1))
    results.save(SETUP._replace(dtype="bfloat16"), row("one", "moved", none=9.0))
    results.save(SETUP, row("one", "moved", auto=0.05))
    results.save(SETUP, row("two", "moved", none=0.4))
    one, two = results.load(SETUP)
    assert {name: found["kl"] for name, found in one.arms.items()} == {"none": 0.2, "auto": 0.05}
    assert (two.prompt, two.situation) == ("two", "moved")
    assert two.arms["none"]["time"] == 0.25
    wanted = ["none", "auto"]
    assert results.missing([one, two], "one", "moved", wanted) == []
    assert results.missing([one, two], "two", "moved", wanted) == ["auto"]
    assert results.missing([one, two], "one", "truncated", wanted) == wanted


def test_the_summary_pools_and_splits_by_situation(tmp_path: Path) -> None:
    measured = [
        Measured("one", "moved", {"none": arm(0.2), "auto": arm(0.1)}),
        Measured("one", "truncated", {"none": arm(0.1)}),
        Measured("two", "moved", {"none": arm(0.6), "auto": arm(0.1)}),
    ]
    pooled, every_arm, moved, truncated = summaries(measured)
    assert pooled["situation"] == "pooled"
    assert pooled["arms"]["none"]["mean_kl"] == pytest.approx(0.3)
    assert pooled["arms"]["none"]["median_kl"] == pytest.approx(0.2)
    assert pooled["ratios"]["auto / none"]["ratio"] == pytest.approx(0.25)
    assert pooled["ratios"]["auto / none"]["num_cases"] == 2
    assert every_arm["arms"]["none"]["mean_kl"] == pytest.approx(0.4)
    assert moved["arms"]["auto"]["cases"] == 2
    assert "auto" not in truncated["arms"]
    assert "auto / none" not in truncated["ratios"]
    assert "auto / none" in text(pooled)
    write_plot(tmp_path / "plot.svg", "title", pooled["arms"])
    drawn = (tmp_path / "plot.svg").read_text()
    assert drawn.count("<rect") == 3  # the ground and two arms
    assert ">auto</text>" in drawn
