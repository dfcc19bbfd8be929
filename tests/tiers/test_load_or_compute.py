"""Rates, and what they decide."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.tiers.load_or_compute import best_cut, seconds_saved
from kvtool.tiers.rates import Rates


@given(st.lists(st.integers(-5, 5), max_size=12))
def test_the_best_cut_saves_most_and_is_the_longest_of_those(saved: list[int]) -> None:
    totals = [sum(saved[:cut]) for cut in range(len(saved) + 1)]
    best = max(totals)
    longest = max(cut for cut, total in enumerate(totals) if total == best)
    assert best_cut([float(seconds) for seconds in saved]) == (longest if best > 0 else 0)


def test_what_was_never_measured_is_loaded() -> None:
    assert seconds_saved(16, 10**9, None, 1e9) > 0
    assert seconds_saved(16, 10**9, 1.0, None) > 0
    assert seconds_saved(16, 100, 50.0, 16.0) == pytest.approx(-1.0)


def test_recent_measurements_count_most() -> None:
    rates = Rates()
    assert rates.load_rate("disk") is None and rates.compute_rate is None
    for _ in range(30):
        rates.loaded("disk", 100, 1.0)
    assert rates.load_rate("disk") == pytest.approx(100)
    for _ in range(30):
        rates.loaded("disk", 300, 1.0)
    assert rates.load_rate("disk") == pytest.approx(300, rel=0.02)
    rates.loaded("disk", 0, 1.0)
    rates.computed(10, 0.0)
    assert rates.compute_rate is None


def test_one_slow_load_does_not_decide_for_ever_nor_for_later_processes() -> None:
    """Each process leaves the tier aside once, as a command does that serves one prompt."""
    rates, tries = Rates.from_dict({"disk": 1.0, "compute": 16.0}), 0
    while best_cut([seconds_saved(16, 100, rates.load_rate("disk"), rates.compute_rate)]) == 0:
        rates.doubt("disk")
        rates.doubt("remote")
        rates, tries = Rates.from_dict(rates.as_dict()), tries + 1
    assert tries == 49, "ten per cent a time, from 1 to 100 bytes/s"
    assert rates.load_rate("remote") is None
    rates.loaded("disk", 5000, 0.005)
    assert rates.load_rate("disk") > 1e5, "a recalled figure weighs little against a new one"


def test_figures_survive_the_process_and_damage() -> None:
    rates = Rates()
    rates.loaded("disk", 1000, 2.0)
    rates.computed(640, 0.5)
    assert Rates.from_dict(rates.as_dict()).as_dict() == {"compute": 1280.0, "disk": 500.0}
    damaged = {"disk": "fast", "host": -1.0, "remote": float("nan"), "compute": float("inf")}
    damaged |= {"large": 10**400, "huge": 1e300, "zero": 0}
    assert Rates.from_dict(damaged).as_dict() == {}
