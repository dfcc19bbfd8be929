"""Each definition of hit rate, by hand and against plain sums."""

from analysis import oracle
from analysis.small_traces import IDS, TEXT, Turn, accesses_of, plain, totals, traces
from hypothesis import given, settings

from kvtool.analysis.hit_rates import DEFINITIONS, REPORTED_BY, hit_rates


@given(traces())
@settings(max_examples=30)
def test_equal_plain_sums(trace):
    turns, unit = trace
    requests, weights, num_tokens = plain(turns, unit)
    resident = oracle.unlimited(requests)
    rates = hit_rates(accesses_of(turns, unit))
    blocks, tokens = totals(resident, weights)[:2]
    half = len(turns) // 2
    warm_blocks, warm_tokens = totals(resident[half:], weights[half:])[:2]
    shares = [sum(row) / len(row) for row in resident if row]
    assert rates["block_cold"][1:3] == (blocks, sum(map(len, requests)))
    assert rates["token_cold"][1:3] == (tokens, num_tokens)
    assert rates["block_warm"][1:3] == (warm_blocks, sum(map(len, requests[half:])))
    assert rates["token_warm"][1:3] == (warm_tokens, sum(t.num_tokens for t in turns[half:]))
    assert rates["request_mean"].denominator == len(shares)
    assert abs(rates["request_mean"].numerator - sum(shares)) < 1e-9


def test_by_hand():
    turns = [Turn([1, 2]), Turn([1, 3], num_tokens=5), Turn([1, 2, 4])]
    rates = hit_rates(accesses_of(turns, IDS))
    assert {name: rate[:3] for name, rate in rates.items()} == {
        "block_cold": (3 / 7, 3, 7),
        "token_cold": (12 / 25, 12, 25),
        "block_warm": (3 / 5, 3, 5),
        "token_warm": (12 / 17, 12, 17),
        "request_mean": ((1 / 2 + 2 / 3) / 3, 1 / 2 + 2 / 3, 3),
    }


def test_prompts_below_one_block_count_as_tokens_only():
    rates = hit_rates(accesses_of([Turn([1]), Turn([1])], TEXT))
    assert rates["token_cold"][:3] == (0.0, 0, 2)
    assert rates["block_cold"][:3] == (None, 0, 0)
    assert rates["request_mean"][:3] == (None, 0.0, 0)


def test_nothing_asked_is_no_rate():
    assert {rate.value for rate in hit_rates(accesses_of([], IDS)).values()} == {None}


def test_every_definition_says_whose_it_is():
    assert DEFINITIONS.keys() == REPORTED_BY.keys() == hit_rates(accesses_of([], IDS)).keys()
