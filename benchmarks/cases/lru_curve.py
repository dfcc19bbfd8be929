"""A trace of block ids: the whole LRU curve, and Belady at five capacities, in compute seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from statistics import median
from typing import Any

from kvtool.analysis.accesses import Accesses
from kvtool.analysis.lru_curve import lru_curve
from kvtool.analysis.policies.policy import parse_policy
from kvtool.analysis.policy_hits import policy_hits
from kvtool.traces.fallback_tokenizer import FallbackTokenizer
from kvtool.traces.open_trace import open_trace
from kvtool.traces.plain_rendering import PlainRendering
from kvtool.traces.prepare import prepare, unit_of
from kvtool.traces.render import Renderer

CAPACITIES = (1_000, 10_000, 30_000, 50_000, 100_000)
ROUNDS = 7
LRU, BELADY = parse_policy("lru"), parse_policy("belady")


def run(trace: str) -> Iterable[dict[str, Any]]:
    """trace: path of a trace with hash ids or text. Reading it is timed apart."""
    opened = open_trace([trace])
    unit = unit_of(opened, block_size=16)
    renderer = Renderer(PlainRendering(FallbackTokenizer()), with_replies=False)
    start = time.process_time()
    accesses = Accesses.of(prepare(opened, renderer, unit), unit)
    read_s = time.process_time() - start
    check(accesses)
    curve_s = seconds(lambda fresh: lru_curve(fresh), accesses)
    belady_s = seconds(lambda fresh: list(policy_hits(fresh, BELADY, CAPACITIES)), accesses)
    yield {
        "requests": accesses.num_requests,
        "block_accesses": len(accesses),
        "lru_rates": rates(accesses),
        "compute_s": {
            "read": round(read_s, 3),
            "lru_curve": round(curve_s, 3),
            "belady": round(belady_s, 3),
            "lru_curve_and_belady": round(curve_s + belady_s, 3),
        },
    }


def check(accesses: Accesses) -> None:
    """The curve says what LRU at each capacity does, and Belady no less."""
    curve = lru_curve(accesses)
    lru = list(policy_hits(accesses, LRU, CAPACITIES))
    assert [curve.at(row.capacity_blocks)[0] for row in lru] == [row.prefix_blocks for row in lru]
    for row, best in zip(lru, policy_hits(accesses, BELADY, CAPACITIES)):
        assert row.independent_blocks <= best.independent_blocks <= curve.ceiling


def rates(accesses: Accesses) -> dict[str, float]:
    curve = lru_curve(accesses)
    return {str(c): round(curve.at(c)[0] / len(accesses), 4) for c in CAPACITIES}


def seconds(compute: Callable[[Accesses], object], accesses: Accesses) -> float:
    """Median processor time, with nothing remembered from one round to the next."""
    times = []
    for _ in range(ROUNDS):
        fresh = replace(accesses)
        start = time.process_time()
        compute(fresh)
        times.append(time.process_time() - start)
    return median(times)
