"""Hits that other simulators count on a trace of hash ids, beside kvtool's (extra `peers`).

kvcache-simulator counts tokens of the second half of the requests. Its lru and optimal evict leaves
of a tree; its optimal is Belady with bypass: as many tokens as kvtool's, which counts a cached block
wherever it is. prefixlens counts blocks of all requests, from an empty cache on; an id is fed to it
as a token, in blocks of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kvtool.analysis.accesses import Accesses
from kvtool.analysis.hit_rates import hit_rates
from kvtool.analysis.lru_curve import lru_curve
from kvtool.analysis.policies.policy import parse_policy
from kvtool.analysis.policy_hits import policy_hits
from kvtool.errors import ConfigError
from kvtool.traces.open_trace import Trace, open_trace
from kvtool.traces.prepare import prepare, unit_of

CAPACITIES = (1_000, 10_000, 11_275, 30_000, 50_000)
UNLIMITED = "unlimited"

# Name of the figure and capacity in blocks -> hits.
Figures = Mapping[tuple[str, int | str], int]


def run(trace: str) -> Iterable[dict[str, Any]]:
    """trace: path of a Mooncake trace, the only kind that all three read."""
    opened = open_trace([trace])
    if opened.kind != "blocks" or opened.block_size is None:
        raise ConfigError(f"{trace} has no hash ids, which is what the others read.")
    unit = unit_of(opened, block_size=16)
    accesses = Accesses.of(prepare(opened, None, unit), unit)
    ids = list(_ids(opened))
    yield row(
        "kvcache-simulator",
        "tokens of the second half of the requests",
        accesses,
        theirs=kvcache_simulator(trace, opened.block_size),
        ours=warm_tokens(accesses),
    )
    yield row(
        "prefixlens",
        "blocks of all requests",
        accesses,
        theirs=prefixlens(ids),
        ours=cold_blocks(accesses),
    )


def row(
    peer: str, counted: str, accesses: Accesses, *, theirs: Figures, ours: Figures
) -> dict[str, Any]:
    """Every figure of the peer beside ours. Raises AssertionError where one differs."""
    differ = {key: (theirs[key], ours[key]) for key in theirs if theirs[key] != ours[key]}
    assert not differ, f"{peer} counts other hits (its, ours): {differ}"
    return {
        "peer": peer,
        "version": version(peer),
        "requests": accesses.num_requests,
        "block_accesses": len(accesses),
        "counted": counted,
        "hits": [
            {"figure": name, "capacity_blocks": blocks, "theirs": count, "ours": ours[name, blocks]}
            for (name, blocks), count in theirs.items()
        ],
    }


def warm_tokens(accesses: Accesses) -> dict[tuple[str, int | str], int]:
    """What kvcache-simulator calls ceiling, lru, fifo and optimal."""
    half = accesses.num_requests // 2
    found: dict[tuple[str, int | str], int] = {
        ("ceiling", UNLIMITED): int(hit_rates(accesses)["token_warm"].numerator)
    }
    for name, policy in (("lru", "lru"), ("fifo", "fifo"), ("optimal", "belady")):
        for hits in policy_hits(accesses, parse_policy(policy), CAPACITIES, first=half):
            best = policy == "belady"
            tokens = hits.independent_tokens if best else hits.prefix_tokens
            found[name, hits.capacity_blocks] = tokens
    return found


def cold_blocks(accesses: Accesses) -> dict[tuple[str, int | str], int]:
    """What prefixlens counts."""
    curve = lru_curve(accesses)
    found: dict[tuple[str, int | str], int] = {("radix", UNLIMITED): curve.ceiling}
    return found | {("radix", blocks): curve.at(blocks)[0] for blocks in CAPACITIES}


def kvcache_simulator(path: str | Path, block_size: int) -> dict[tuple[str, int | str], int]:
    """Capacities that the first half does not fill are left out: it gives them no rate."""
    from kvcache_sim.plan import build_execution_plan
    from kvcache_sim.policies import simulate_ceiling, simulate_policy
    from kvcache_sim.trace import parse_trace_file

    plan = build_execution_plan(parse_trace_file(path, block_size=block_size))
    found = {("ceiling", UNLIMITED): simulate_ceiling(plan).hitTokens}
    for policy in ("lru", "fifo", "optimal"):
        for blocks in CAPACITIES:
            result = simulate_policy(plan, policy, blocks)
            if result.measurementMode == "fixed_window":
                found[policy, blocks] = result.hitTokens
    return found


def prefixlens(requests: Iterable[tuple[int, ...]]) -> dict[tuple[str, int | str], int]:
    """requests: the ids of each."""
    from prefixlens import RadixCacheSimulator, Request

    asked = [Request(str(n), ids) for n, ids in enumerate(requests)]
    most = 1 + sum(len(request.token_ids) for request in asked)
    found = {}
    for name, blocks in ((UNLIMITED, most), *((blocks, blocks) for blocks in CAPACITIES)):
        simulator = RadixCacheSimulator(block_size=1, capacity_blocks=blocks)
        for request in asked:
            simulator.process(request)
        found["radix", name] = simulator.report().cached_blocks
    return found


def _ids(trace: Trace) -> Iterator[tuple[int, ...]]:
    for prepared in prepare(trace, None, unit_of(trace, block_size=16)):
        yield tuple(prepared.symbols.tolist())
