"""The chosen set of runs against all sets of disjoint ranges."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reuse.texts import SIZE, run

from kvtool.reuse.choose import choose
from kvtool.reuse.repair import parse_repair
from kvtool.reuse.run import Run

NONE = parse_repair("none")


@st.composite
def some_runs(draw: st.DrawFn) -> list[Run]:
    runs = []
    for name in range(draw(st.integers(0, 5))):
        start = draw(st.integers(0, 30))
        stop = start + draw(st.integers(1, 30))
        runs.append(run(start, stop, draw(st.integers(-20, start)), name))
    return runs


def stands_in(other: Run, one: Run) -> bool:
    """`other` holds all of `one`, with no sink where `one` has none."""
    covers = other.start <= one.start and one.stop <= other.stop
    return covers and (one.at_sink or other.start < one.start or not other.at_sink)


def undominated(runs: list[Run]) -> list[Run]:
    return [
        one
        for i, one in enumerate(runs)
        if not any(
            stands_in(other, one) and (j < i or not stands_in(one, other))
            for j, other in enumerate(runs)
            if i != j
        )
    ]


def best_value(runs: list[Run], cuts: list[Run], repair: str, min_run: int) -> tuple[int, int]:
    """(tokens saved, -number of ranges), by trying every range between two edges of `cuts`."""
    rule = parse_repair(repair)
    edges = sorted({edge for one in cuts for edge in (one.start, one.stop)})
    gains = {}
    for start, stop in combinations(edges, 2):
        inside = [r.cut(start, stop, SIZE) for r in runs if r.start <= start and stop <= r.stop]
        if inside and stop - start >= min_run:
            cost = min(rule.cost(stop - start, r.at_sink, SIZE) for r in inside)
            gains[start, stop] = stop - start - cost
    best = {0: (0, 0)}  # by end of the last range
    for (start, stop), gain in sorted(gains.items(), key=lambda item: item[0][1]):
        before = max(value for end, value in best.items() if end <= start)
        value = (before[0] + gain, before[1] - 1)
        best[stop] = max(best.get(stop, (0, 0)), value)
    return max(best.values())


def value_of(chosen: list[Run], repair: str) -> tuple[int, int]:
    rule = parse_repair(repair)
    costs = [rule.cost(r.num_tokens, r.at_sink, SIZE) for r in chosen]
    return sum(r.num_tokens for r in chosen) - sum(costs), -len(chosen)


@pytest.mark.parametrize("repair", ["none", "auto", "first:4", "attn:0.3"])
@pytest.mark.parametrize("min_run", [1, 8])
@settings(max_examples=150)
@given(runs=some_runs())
def test_no_other_set_saves_more(repair: str, min_run: int, runs: list[Run]) -> None:
    chosen = choose(runs, parse_repair(repair), min_run, SIZE)
    assert value_of(chosen, repair) == best_value(runs, undominated(runs), repair, min_run)
    if min_run == 1 and repair == "first:4":  # every range costs the same, with a sink or not
        assert value_of(chosen, repair) == best_value(runs, runs, repair, min_run)
    for one, after in pairwise(chosen):
        assert one.stop <= after.start
    for one in chosen:
        assert one.num_tokens >= min_run
        assert any(
            r.start <= one.start and one.stop <= r.stop and r.cut(one.start, one.stop, SIZE) == one
            for r in runs
        )


def test_nothing_to_choose_from() -> None:
    assert choose([], NONE, 1, SIZE) == []


def test_one_chunk_three_times_gives_three_runs() -> None:
    runs = [run(4, 20, 4, 1), run(24, 40, 24, 1), run(40, 56, 40, 1)]
    assert choose(runs, NONE, 1, SIZE) == runs


def test_an_overlap_is_cut_where_it_costs_least() -> None:
    one, two = run(2, 20, 1, 1), run(14, 40, 7, 2)
    assert choose([one, two], NONE, 1, SIZE) == [one.cut(2, 14, SIZE), two]
    assert choose([one, two], NONE, 13, SIZE) == [one, two.cut(20, 40, SIZE)]
    assert choose([one, two], NONE, 19, SIZE) == [two]


def test_fewer_runs_then_delta_zero() -> None:
    parts = [run(0, 8, -8, 1), run(8, 16, -8, 2)]
    whole = run(0, 16, -8, 3)
    assert choose([*parts, whole], NONE, 1, SIZE) == [whole]
    moved, in_place = run(8, 40, 4, 1), run(8, 40, 0, 2)
    assert choose([moved, in_place], NONE, 1, SIZE) == [in_place]


def test_a_run_that_repair_computes_again_altogether_is_not_used() -> None:
    assert choose([run(8, 40, 4)], parse_repair("first:32"), 1, SIZE) == []
    assert choose([run(8, 41, 4)], parse_repair("first:32"), 1, SIZE) == [run(8, 41, 4)]


def test_a_copy_without_a_sink_in_front_is_taken() -> None:
    sink, other = run(8, 40, 8, 1), run(8, 40, 3, 2)
    assert choose([sink, other], NONE, 1, SIZE) == [other]


def test_cutting_follows_the_blocks() -> None:
    whole = run(10, 40, 3)
    assert whole.blocks == tuple(range(1, 10)) and whole.offset == 3
    assert whole.cut(11, 39, SIZE) == Run(11, 39, 3, tuple(range(2, 9)), 0)
    assert whole.cut(10, 11, SIZE) == Run(10, 11, 3, (1,), 3)
    assert whole.cut(39, 40, SIZE) == Run(39, 40, 3, (9,), 0)
