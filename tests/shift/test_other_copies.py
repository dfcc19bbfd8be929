"""Where one copy of a text must not donate, another one does."""

from __future__ import annotations

import numpy as np
from engine.toy_engine import toy_request
from hypothesis import given
from hypothesis import strategies as st
from reuse.texts import SIZE, Store
from reuse.texts import text as tokens_of
from shift.shift_engine import movable, reply, shift_engine, text
from shift.test_no_laundering import DONOR, HEADER, finished, shift_toy_engine

from kvtool.cache.shift_planner import FAILED_CHECK
from kvtool.reuse.donor_source import MIN_CONTEXT_TOKENS
from kvtool.reuse.refusals import Limits
from kvtool.reuse.runs import find_runs

CHUNK = text(60, seed=1)
FIRST = text(16, seed=2) + CHUNK + text(5, seed=3)
SECOND = text(23, seed=6) + CHUNK + text(5, seed=7)
TARGET = text(40, seed=4) + CHUNK + text(7, seed=5)


def test_a_donor_that_failed_its_check_is_replaced_by_another_copy() -> None:
    model = movable("llama")
    engine = shift_engine(model, cache={"donor": "recent"})
    for donor in (FIRST, SECOND):
        reply(engine, donor, shift=False)
    blocks = engine.manager.groups[0].match(np.array(SECOND, np.int32), b"").block_ids
    model.pools[0][int(blocks[10]), 0] += 1.0
    request = reply(engine, TARGET)
    assert engine.manager.stats.refused_runs[FAILED_CHECK] == 1
    assert [(run.stop - run.start, run.delta) for run in request.moved_runs] == [(60, 24)]
    assert request.usage.shifted_tokens == 60


def test_a_donor_that_another_group_has_lost_is_replaced_by_another_copy() -> None:
    engine = shift_toy_engine(num_groups=2)
    finished(engine, toy_request([0, 1, 2, 3, 4, *DONOR], 1, shift=False))
    kept = set(engine.manager.groups[1].tree.blocks())
    finished(engine, toy_request([4, 4, 4, 4, 2, *DONOR], 1, shift=False))
    other = engine.manager.groups[1]
    lost = sorted(set(other.tree.blocks()) - kept)
    while any(map(other.tree.is_cached, lost)):
        leaves = [block for block in lost if other.tree.evictable_use(block)]
        other.tree.end_use(leaves, -1)
        for block in leaves:
            other._heap.push(block)
        other._evict(len(leaves))
    engine.check_integrity()
    (request,) = finished(engine, toy_request([*HEADER, *DONOR, 1], 3))
    assert request.usage.shifted_tokens >= len(DONOR) - 1
    assert engine.manager.stats.refused_runs["not_in_every_group"] >= 1


CONTENT = list(range(1000, 1000 + 9 * SIZE))


@given(
    bare=st.lists(st.integers(0, MIN_CONTEXT_TOKENS - 4 * SIZE), min_size=1, max_size=12),
    long=st.integers(MIN_CONTEXT_TOKENS, 3 * MIN_CONTEXT_TOKENS),
    place=st.integers(0, 12),
    at=st.integers(0, 9),
)
def test_a_copy_behind_a_bare_header_never_replaces_one_behind_real_text(
    bare: list[int], long: int, place: int, at: int
) -> None:
    """However many there are and whenever they were used."""
    store = Store(2048)
    place = min(place, len(bare))
    for i, length in enumerate([*bare[:place], long, *bare[place:]]):
        store.add(tokens_of([500 + i] * length, CONTENT, 700 + i))
    found = find_runs(tokens_of([3] * at, CONTENT, 4), 0, store.content, b"", limits=Limits(8))
    assert any(run.start - run.delta == long for run in found.runs)
    assert found.num_verified <= 4 * (at + len(CONTENT) + 1)
