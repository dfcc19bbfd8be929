"""The whole LRU curve against LRU at every capacity."""

import numpy as np
from analysis import oracle
from analysis.small_traces import IDS, Turn, accesses_of, plain, totals, traces
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.analysis.lru_curve import SHARES, lru_curve
from kvtool.analysis.stack_distances import NEVER, smaller_before, stack_distances


@given(traces())
@settings(max_examples=30)
def test_every_capacity(trace):
    turns, unit = trace
    requests, weights, _ = plain(turns, unit)
    accesses = accesses_of(turns, unit)
    curve = lru_curve(accesses)
    for capacity in range(accesses.num_blocks + 2):
        resident = oracle.lru(requests, capacity)
        assert curve.at(capacity) == totals(resident, weights)[:2], capacity


@given(traces())
@settings(max_examples=30)
def test_capacities_are_where_hits_change(trace):
    curve = lru_curve(accesses_of(*trace))
    for k, capacity in enumerate(curve.capacities.tolist()):
        assert curve.at(capacity) == (curve.hit_blocks[k], curve.hit_tokens[k])
        assert curve.at(capacity - 1)[0] < curve.hit_blocks[k]


@given(traces(), st.sampled_from([*SHARES, "0.5", "1"]))
@settings(max_examples=30)
def test_capacity_for_a_share_of_the_ceiling(trace, share):
    turns, unit = trace
    requests = plain(turns, unit).requests
    curve = lru_curve(accesses_of(turns, unit))
    assert curve.capacity_for(share) == oracle.capacity_for(requests, share)


@given(traces())
@settings(max_examples=25)
def test_a_distance_is_the_smallest_capacity_that_hits(trace):
    turns, unit = trace
    requests = plain(turns, unit).requests
    accesses = accesses_of(turns, unit)
    distances = stack_distances(accesses)
    for capacity in range(1, accesses.num_blocks + 2):
        resident = [hit for row in oracle.lru(requests, capacity) for hit in row]
        assert (distances <= capacity).tolist() == resident


def test_by_hand():
    # stack after each request: 1 2 3 | 1 4 2 3 | 1 2 3 4
    turns = [Turn([1, 2, 3]), Turn([1, 4]), Turn([1, 2, 3])]
    distances = stack_distances(accesses_of(turns, IDS))
    assert distances.tolist() == [NEVER, NEVER, NEVER, 1, NEVER, 1, 3, 4]
    curve = lru_curve(accesses_of(turns, IDS))
    assert curve.capacities.tolist() == [1, 3, 4]
    assert curve.hit_blocks.tolist() == [2, 3, 4]
    assert curve.capacities_for() == {"0.90": 4, "0.95": 4, "0.99": 4}


def test_nothing_ever_hits():
    curve = lru_curve(accesses_of([Turn([1]), Turn([2])], IDS))
    assert (curve.ceiling, curve.at(9), curve.capacity_for("0.9")) == (0, (0, 0), None)


@given(st.permutations(range(17)), st.integers(0, 17))
def test_smaller_before(values, length):
    values = np.argsort(np.argsort(values[:length]))
    naive = [int(np.count_nonzero(values[:i] < value)) for i, value in enumerate(values)]
    assert smaller_before(values).tolist() == naive
