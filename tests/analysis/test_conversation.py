"""Mooncake's conversation trace (12,031 requests), by figures that others measured too."""

import os
from pathlib import Path

import pytest

from kvtool.analysis.accesses import Accesses
from kvtool.analysis.hit_rates import hit_rates
from kvtool.analysis.lru_curve import lru_curve
from kvtool.analysis.measurable import num_free_ids
from kvtool.analysis.policies.policy import parse_policy
from kvtool.analysis.policy_hits import policy_hits
from kvtool.analysis.stability import stability
from kvtool.traces.fallback_tokenizer import FallbackTokenizer
from kvtool.traces.open_trace import open_trace
from kvtool.traces.plain_rendering import PlainRendering
from kvtool.traces.prepare import prepare, unit_of
from kvtool.traces.render import Renderer

CAPACITIES = (1_000, 10_000, 30_000, 50_000, 100_000)
# independent block, prefix block, independent token, prefix token at each capacity
FIGURES = {
    "lru": (
        (0.0445, 0.0445, 0.0454, 0.0454),
        (0.2116, 0.2116, 0.2157, 0.2157),
        (0.3257, 0.3257, 0.3322, 0.3322),
        (0.3546, 0.3546, 0.3615, 0.3615),
        (0.3637, 0.3637, 0.3708, 0.3708),
    ),
    "fifo": (
        (0.0436, 0.0434, 0.0444, 0.0442),
        (0.1869, 0.1815, 0.1905, 0.1850),
        (0.3025, 0.2944, 0.3085, 0.3002),
        (0.3400, 0.3335, 0.3467, 0.3401),
        (0.3593, 0.3563, 0.3663, 0.3633),
    ),
    "lfu": (
        (0.0481, 0.0481, 0.0490, 0.0490),
        (0.1322, 0.1318, 0.1348, 0.1344),
        (0.2760, 0.2759, 0.2815, 0.2813),
        (0.3438, 0.3438, 0.3506, 0.3506),
        (0.3631, 0.3631, 0.3702, 0.3702),
    ),
    "belady": (
        (0.1907, 0.1804, 0.1944, 0.1839),
        *[(0.3664, 0.3664, 0.3736, 0.3736)] * 4,
    ),
}


@pytest.fixture(scope="module")
def accesses():
    path = Path(os.environ["KVTOOL_TRACES"], "mooncake", "conversation_trace.jsonl.gz")
    trace = open_trace([path], trace_block_size=512)
    renderer = Renderer(PlainRendering(FallbackTokenizer()), with_replies=False)
    unit = unit_of(trace, block_size=16)
    return Accesses.of(prepare(trace, renderer, unit), unit)


def test_sizes(accesses):
    assert (accesses.num_requests, len(accesses)) == (12_031, 288_500)
    assert (accesses.num_blocks, accesses.num_tokens) == (182_790, 144_793_823)
    assert num_free_ids(accesses) == 0


def test_without_a_limit(accesses):
    rates = hit_rates(accesses)
    assert rates["block_cold"][1:3] == (105_710, 288_500)
    assert round(rates["token_cold"].value, 4) == 0.3736


def test_kvcache_simulator_0_1_3_counts_the_same_hits(accesses):
    """Its figures for the second half of the requests: the ceiling, and LRU with 11,275 blocks."""
    assert hit_rates(accesses)["token_warm"][1:3] == (27_038_068, 67_915_607)
    half = accesses.num_requests // 2
    (row,) = policy_hits(accesses, parse_policy("lru"), [11_275], first=half)
    assert row.prefix_tokens == 15_849_049


@pytest.mark.parametrize("name", FIGURES)
def test_policies(accesses, name):
    rows = policy_hits(accesses, parse_policy(name), CAPACITIES)
    assert [four_digits(row, accesses) for row in rows] == list(FIGURES[name])


def four_digits(row, accesses):
    blocks = row.independent_blocks, row.prefix_blocks
    tokens = row.independent_tokens, row.prefix_tokens
    rates = [n / len(accesses) for n in blocks] + [n / accesses.num_tokens for n in tokens]
    return tuple(round(rate, 4) for rate in rates)


def test_whole_curve(accesses):
    curve = lru_curve(accesses)
    assert curve.at(10_000)[0] == 61_046
    assert curve.ceiling == 105_710
    assert curve.capacities_for() == {"0.90": 31_435, "0.95": 37_602, "0.99": 85_219}


def test_the_order_by_time_is_that_of_the_file(accesses):
    time, file, reversed_ties = stability(accesses, CAPACITIES)
    assert time[1:] == file[1:] != reversed_ties[1:]
