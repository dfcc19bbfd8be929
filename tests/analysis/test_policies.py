"""Every policy against a plain one, at every capacity of small traces."""

import numpy as np
import pytest
from analysis import oracle
from analysis.small_traces import IDS, TEXT, Turn, accesses_of, plain, totals, traces
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.analysis.policies.policy import POLICIES, SIMULATED, parse_policy
from kvtool.analysis.policies.ranked import ranked
from kvtool.analysis.policy_hits import policy_hits
from kvtool.cache import eviction
from kvtool.errors import ConfigError
from kvtool.names import lookup

NAMES = [name if name != "ttl" else "ttl:4" for name in POLICIES]


def expected(name, turns, requests, capacity):
    priorities = [turn.priority for turn in turns]
    match name:
        case "slru":
            return oracle.leaves_first(requests, priorities, capacity, oracle.slru)
        case "priority":
            return oracle.leaves_first(requests, priorities, capacity, oracle.priority)
        case "ttl:4":
            return oracle.ttl(requests, [turn.arrival for turn in turns], capacity, 4)
        case _ if name not in SIMULATED:
            rank = lookup(eviction.POLICIES, name, "policy")
            return oracle.leaves_first(requests, priorities, capacity, rank)
    return getattr(oracle, name)(requests, capacity)


@pytest.mark.parametrize("name", NAMES)
@given(traces())
@settings(max_examples=25)
def test_equals_a_plain_one(name, trace):
    turns, unit = trace
    requests, weights, _ = plain(turns, unit)
    accesses = accesses_of(turns, unit)
    capacities = range(1, accesses.num_blocks + 2)
    for row in policy_hits(accesses, parse_policy(name), capacities):
        resident = expected(name, turns, requests, row.capacity_blocks)
        assert row[2:] == totals(resident, weights), f"{name} at {row.capacity_blocks}"


@pytest.mark.parametrize("name", ["lru", "fifo"])
@given(traces(), st.integers(0, 3))
@settings(max_examples=25)
def test_hits_of_later_requests(name, trace, first):
    turns, unit = trace
    first = min(first, len(turns))
    requests, weights, _ = plain(turns, unit)
    resident = expected(name, turns, requests, 3)
    (row,) = policy_hits(accesses_of(turns, unit), parse_policy(name), [3], first=first)
    assert row[2:] == totals(resident[first:], weights[first:])


@given(traces(max_requests=5), st.integers(1, 3))
@settings(max_examples=25)
def test_belady_is_the_best_of_all(trace, capacity):
    turns, unit = trace
    turns = [turn._replace(symbols=turn.symbols[:4], num_tokens=None) for turn in turns]
    accesses = accesses_of(turns, unit)
    requests = [oracle.blocks_of(t.symbols, unit.block_size, t.namespace) for t in turns]
    (row,) = policy_hits(accesses, parse_policy("belady"), [capacity])
    assert row.independent_blocks == oracle.most_hits(requests, capacity)


@given(traces())
@settings(max_examples=25)
def test_lru_by_leaves_is_lru_by_stack(trace):
    accesses = accesses_of(*trace)
    capacities = range(1, accesses.num_blocks + 2)
    by_stack = parse_policy("lru").simulate(accesses, capacities)
    for leaves, stack in zip(ranked(accesses, capacities, eviction.lru), by_stack):
        assert np.array_equal(leaves, stack)


def test_every_policy_of_the_engine_is_known():
    assert set(eviction.POLICIES) <= set(POLICIES)
    ranks = set(POLICIES) - set(SIMULATED)
    assert ranks == set(eviction.POLICIES) - set(SIMULATED) and ranks


@pytest.mark.parametrize("name", NAMES)
def test_no_limit_is_the_ceiling(name):
    turns = [Turn([1, 2, 3], arrival=0), Turn([1, 2, 4], arrival=1), Turn([1, 2, 3, 5], arrival=2)]
    (row,) = policy_hits(accesses_of(turns, IDS), parse_policy(name), [100])
    assert row == (name, 100, 5, 20, 5, 20)


def test_lru_evicts_the_tail_first():
    # After [1 2 3] and [9], two blocks are left of the first request's three: its head.
    turns = [Turn([1, 2, 3]), Turn([9]), Turn([1, 2, 3])]
    (row,) = policy_hits(accesses_of(turns, IDS), parse_policy("lru"), [3])
    assert row.prefix_blocks == 2


def test_fifo_leaves_tails_without_heads():
    # 3 pushes out 1, the head of the chain: 1.2 is there, and useless.
    turns = [Turn([1, 2]), Turn([3]), Turn([1, 2])]
    (row,) = policy_hits(accesses_of(turns, IDS), parse_policy("fifo"), [2])
    assert (row.prefix_blocks, row.independent_blocks) == (0, 1)


def test_lfu_keeps_what_more_requests_used():
    turns = [Turn([1]), Turn([1]), Turn([2]), Turn([3]), Turn([1]), Turn([2])]
    (row,) = policy_hits(accesses_of(turns, IDS), parse_policy("lfu"), [2])
    assert row.prefix_blocks == 2  # both of [1]; 3 pushed out 2


def test_belady_lets_through_what_is_needed_later():
    # 2 is needed after 1: it does not come in.
    turns = [Turn([1]), Turn([2]), Turn([1]), Turn([2])]
    (row,) = policy_hits(accesses_of(turns, IDS), parse_policy("belady"), [1])
    assert row.independent_blocks == 1


def test_ttl_begins_anew_with_every_use():
    turns = [Turn([1], arrival=t) for t in (0.0, 4.0, 8.0, 12.5)]
    (row,) = policy_hits(accesses_of(turns, IDS), parse_policy("ttl:4"), [9])
    assert row.prefix_blocks == 2


def test_high_priority_outlives_recent_use():
    turns = [Turn([1], priority=1), Turn([2]), Turn([3]), Turn([1]), Turn([2])]
    (row,) = policy_hits(accesses_of(turns, IDS), parse_policy("priority"), [2])
    assert row.prefix_blocks == 1


def test_a_request_larger_than_the_cache_keeps_its_head():
    turns = [Turn([1, 2, 3, 4]), Turn([1, 2, 3, 4])]
    for name in ("lru", "slru", "priority"):
        (row,) = policy_hits(accesses_of(turns, IDS), parse_policy(name), [3])
        assert row.prefix_blocks == 3, name


def test_ttl_refuses_a_trace_without_times():
    accesses = accesses_of([Turn([1]), Turn([1], arrival=3.0)], IDS)
    with pytest.raises(ConfigError, match="1 of 2 have none"):
        list(policy_hits(accesses, parse_policy("ttl:300"), [1]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no-such", "Unknown policy 'no-such'"),
        ("lru:5", "'lru' takes no '5'"),
        ("ttl", "SECONDS is ''"),
        ("ttl:0", "SECONDS is '0'"),
        ("ttl:-1", "SECONDS is '-1'"),
        ("ttl:nan", "SECONDS is 'nan'"),
    ],
)
def test_refuses_wrong_names(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_policy(text)


def test_an_empty_trace_has_no_hits():
    for unit in (TEXT, IDS):
        accesses = accesses_of([], unit)
        for name in NAMES:
            assert [row[2:] for row in policy_hits(accesses, parse_policy(name), [1])] == [
                (0, 0, 0, 0)
            ]
