"""Checks hold on every trace, and fail where figures are wrong."""

from dataclasses import replace

from analysis.small_traces import IDS, Turn, accesses_of, prepared, traces
from hypothesis import given, settings

from kvtool.analysis.hit_rates import hit_rates
from kvtool.analysis.invariants import as_json, causes_sum, invariants
from kvtool.analysis.lru_curve import lru_curve
from kvtool.analysis.policies.policy import POLICIES, parse_policy
from kvtool.analysis.policy_hits import policy_hits
from kvtool.analysis.schemes import scheme_uses
from kvtool.analysis.stability import stability

NAMES = (
    "hits_and_misses_are_accesses",
    "lru_curve_never_falls",
    "infinite_is_ceiling",
    "rates_within_0_and_1",
    "lru_curve_is_lru",
    "belady_at_least_every_policy",
    "prefix_at_most_any_offset",
    "chain_at_most_radix",
)


def figures(turns, unit):
    accesses = accesses_of(turns, unit)
    hits = [
        row
        for name in POLICIES
        for row in policy_hits(
            accesses, parse_policy("ttl:4" if name == "ttl" else name), [1, 2, 3, 5, 9]
        )
    ]
    schemes = scheme_uses(prepared(turns, unit), unit)
    return accesses, hit_rates(accesses), lru_curve(accesses), hits, schemes


@given(traces())
@settings(max_examples=25)
def test_hold_on_every_trace(trace):
    checks = as_json(invariants(*figures(*trace)))
    assert all(checks.values()), checks
    assert set(NAMES) - set(checks) <= {"prefix_at_most_any_offset"}  # not of hash ids


def broken(**changes):
    turns = [Turn([1, 2], arrival=0), Turn([1, 3], arrival=1), Turn([1, 2], arrival=2)]
    names = ("accesses", "rates", "curve", "hits", "schemes")
    values = dict(zip(names, figures(turns, IDS)))
    values |= {name: change(values[name]) for name, change in changes.items()}
    return {name for name, holds in as_json(invariants(**values)).items() if not holds}


def test_fail_where_figures_are_wrong():
    assert not broken()
    falling = broken(curve=lambda curve: replace(curve, hit_tokens=-curve.hit_tokens))
    assert falling == {"lru_curve_never_falls", "lru_curve_is_lru"}
    low = broken(curve=lambda curve: replace(curve, hit_blocks=curve.hit_blocks - 1))
    assert low == {"infinite_is_ceiling", "lru_curve_is_lru"}
    best = broken(
        hits=lambda rows: [row._replace(independent_blocks=6) for row in rows[:-1]] + rows[-1:]
    )
    assert best == {"belady_at_least_every_policy"}
    high = broken(hits=lambda rows: [row._replace(prefix_tokens=99) for row in rows])
    assert high == {"rates_within_0_and_1", "lru_curve_is_lru"}


def test_a_sum_of_causes():
    assert causes_sum({"first sight": 3, "capacity": 4}, 7).holds
    assert not causes_sum({"first sight": 3}, 7).holds
    assert not causes_sum({"first sight": 8, "capacity": -1}, 7).holds


def test_the_order_of_requests_can_matter():
    # By time 1 comes back at once; by file 2 is in between. 3 and 2 come at the same time.
    turns = [
        Turn([1], arrival=0, index=0),
        Turn([1], arrival=1, index=2),
        Turn([2], arrival=2, index=1),
        Turn([1], arrival=2, index=3),
    ]
    rows = stability(accesses_of(turns, IDS), [1, 2])
    assert {row.order: row.hit_blocks for row in rows} == {
        "time": (1, 2),
        "file": (1, 2),
        "ties_reversed": (2, 2),
    }
    assert rows[0].hit_tokens == (4, 8)


def test_orders_of_an_empty_trace():
    assert [row.hit_blocks for row in stability(accesses_of([], IDS), [1])] == [(0,)] * 3
