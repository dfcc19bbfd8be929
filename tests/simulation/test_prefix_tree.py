"""Shared prefixes against counts made the plain way."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from replay.prepared_requests import HASH_IDS, prepared

from kvtool.analysis.accesses import Accesses
from kvtool.simulation.prefix_tree import prefix_nodes

prompts = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=12)


def accesses_of(traces: list[list[int]]) -> Accesses:
    requests = [prepared(i, symbols, unit=HASH_IDS) for i, symbols in enumerate(traces)]
    return Accesses.of(requests, HASH_IDS)


@given(prompts)
@settings(max_examples=60)
def test_nodes_hold_every_shared_block(traces: list[list[int]]) -> None:
    nodes = prefix_nodes(accesses_of(traces), limit=1000)
    counts = Counter(tuple(p[: end + 1]) for p in traces for end in range(len(p)))
    shared = {prefix: count for prefix, count in counts.items() if count > 1}
    assert sum(node.tokens for node in nodes) == 512 * len(shared)
    assert sum(node.hit_tokens for node in nodes) == 512 * sum(c - 1 for c in shared.values())
    for node in nodes:
        assert node.parent is None or node.parent < node.id


@given(prompts, st.integers(1, 4))
@settings(max_examples=60)
def test_fewer_nodes_are_closed_under_parents(traces: list[list[int]], limit: int) -> None:
    accesses = accesses_of(traces)
    everything = {node.id: node for node in prefix_nodes(accesses, limit=1000)}
    nodes = prefix_nodes(accesses, limit)
    assert len(nodes) <= limit
    for node in nodes:
        assert everything[node.id] == node
        assert node.parent is None or node.parent in {other.id for other in nodes}
