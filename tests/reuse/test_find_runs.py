"""Runs between a prompt and the cache, against brute force; and how little is compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reuse.oracle import ANY_LENGTH, all_runs, as_keys, find
from reuse.texts import Store, text

from kvtool.cache.block_pool import Tokens
from kvtool.cache.index import INDEXES
from kvtool.reuse import content_index, content_table
from kvtool.reuse.refusals import Limits
from kvtool.reuse.run import Run
from kvtool.reuse.runs import find_runs


def assert_inside(runs: list[Run], maximal: list[Run]) -> None:
    for run in runs:
        assert any(
            run.delta == other.delta and other.start <= run.start and run.stop <= other.stop
            for other in maximal
        )


def depth(runs: list[Run]) -> int:
    """The most runs that hold one token."""
    places = [at for run in runs for at in range(run.start, run.stop)]
    return max(Counter(places).values(), default=0)


def woven(rng: np.random.Generator, pieces: list[Tokens]) -> Tokens:
    """Some of the pieces, cut anywhere, with unique tokens between them."""
    parts: list[Tokens] = []
    for _ in range(int(rng.integers(1, 5))):
        piece = pieces[int(rng.integers(len(pieces)))]
        start, stop = np.sort(rng.integers(0, len(piece) + 1, 2)).tolist()
        noise = rng.integers(1000, 2**31 - 1, int(rng.integers(0, 4)))
        parts += [piece[start:stop], noise.astype(np.int32)]
    return np.concatenate(parts)


@pytest.fixture(scope="module")
def every_copy() -> Iterator[None]:
    """All copies of a content are candidates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content_index, "MAX_COPIES", 10**6)
        patch.setattr(content_table, "MAX_STEPS", 10**6)
        yield


@pytest.mark.usefixtures("every_copy")
@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("block_size", [1, 2, 4, 5])
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1))
def test_all_maximal_runs_are_found(index: str, block_size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    pieces = [np.arange(i * 50, i * 50 + 40, dtype=np.int32) for i in range(3)]
    pieces.append(rng.integers(0, 2, 20).astype(np.int32))
    store = Store(512, block_size, index)
    for _ in range(int(rng.integers(1, 5))):
        store.add(woven(rng, pieces))
    tokens = woven(rng, pieces)
    first = int(rng.integers(0, len(tokens) + 1)) if rng.random() < 0.5 else 0
    exact = find_runs(tokens, first, store.content, b"", limits=Limits(1, max_depth=255))
    expected = all_runs(tokens, first, store)
    assert as_keys(exact.runs) == expected
    within_bounds = find(store, tokens, first)
    assert_inside(within_bounds.runs, exact.runs)
    if depth(exact.runs) <= 4:
        assert within_bounds == exact


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_hash_that_always_collides_makes_no_false_run(seed: int) -> None:
    rng = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            content_index,
            "window_hashes",
            lambda t, size: np.zeros(max(0, len(t) - size + 1), "u8"),
        )
        patch.setattr(content_index, "block_hashes", lambda blocks: np.zeros(len(blocks), "u8"))
        store = Store()
        for _ in range(3):
            store.add(rng.integers(0, 3, 20).astype(np.int32))
        tokens = rng.integers(0, 3, 40).astype(np.int32)
        find(store, tokens)
        store.check_integrity()


@pytest.mark.parametrize("delta", [-16, -7, -1, 1, 3, 16, 400])
def test_a_chunk_moves_both_ways(delta: int) -> None:
    store = Store()
    blocks = store.add(text(range(900, 918), range(40)))
    (run,) = find(store, text(range(2000, 2018 + delta), range(40), 7)).runs
    assert (run.start, run.stop, run.delta) == (18 + delta, 58 + delta, delta)
    assert run.blocks == tuple(blocks[4:]) and run.offset == 2, "cut mid-block at the front"


def test_a_donor_cut_in_the_middle_of_a_block_at_both_ends() -> None:
    store = Store()
    blocks = store.add(text(range(30)))
    (run,) = find(store, text(100, 101, range(6, 21), 102)).runs
    assert run == (2, 17, -4, tuple(blocks[1:6]), 2)


def test_a_run_goes_on_into_a_partly_filled_leaf() -> None:
    store = Store()
    blocks = store.add(text(range(10)))
    assert store.tree.num_tokens(blocks[-1]) == 2
    (run,) = find(store, text(50, range(10), 51)).runs
    assert run == (1, 11, 1, tuple(blocks), 0)
    (run,) = find(store, text(50, range(9), 51)).runs
    assert run == (1, 10, 1, tuple(blocks), 0)


def test_the_best_of_several_continuations_is_followed() -> None:
    store = Store()
    store.add(text(range(8), 60, 61, 62, 63))
    blocks = store.add(text(range(8), 60, 61, 70))
    (run,) = find(store, text(50, range(8), 60, 61, 70, 71)).runs
    assert run == (1, 12, 1, tuple(blocks), 0)


def test_overlapping_chunks_are_both_found() -> None:
    store = Store()
    store.add(text(90, range(20)))
    store.add(text(91, 92, range(12, 32)))
    found = find(store, text(93, 94, 95, range(32)))
    assert sorted((run.start, run.stop, run.delta) for run in found.runs) == [
        (3, 23, 2),
        (15, 35, 13),
    ]


def test_one_chunk_three_times_gives_three_runs() -> None:
    store = Store()
    blocks = store.add(text(90, range(16)))
    found = find(store, text(80, 81, range(16), 82, range(16), range(16)))
    assert [(run.start, run.stop, run.delta) for run in found.runs] == [
        (2, 18, 1),
        (19, 35, 18),
        (35, 51, 34),
    ]
    assert {run.blocks for run in found.runs} == {tuple(blocks)}


@pytest.mark.parametrize("length", range(1, 65))
def test_runs_of_every_short_length(length: int) -> None:
    """A run is found if it holds a whole block; blocks of 16 lie at 16, 32, ... of the donor."""
    store = Store(block_size=16)
    store.add(text(range(1000, 1009), range(64), range(2000, 2030)))
    found = find(store, text(5000, range(length), 5001))
    holds_a_block = length >= 7 + 16
    expected = [(1, 1 + length, -8)] if holds_a_block else []
    assert [(run.start, run.stop, run.delta) for run in found.runs] == expected
    limits = Limits(min_run=length + 1)
    assert find(store, text(5000, range(length), 5001), limits=limits).runs == []


def test_min_run_is_the_shortest_run_allowed() -> None:
    store = Store()
    store.add(text(90, range(16)))
    tokens = text(80, 81, range(16))
    assert len(find(store, tokens, limits=Limits(min_run=16)).runs) == 1
    found = find(store, tokens, limits=Limits(min_run=17))
    assert found.runs == [] and found.refused == {"shorter_than_min_run": 1}


def test_a_run_that_lands_at_position_zero() -> None:
    store = Store()
    blocks = store.add(text(range(90, 96), range(16)))
    (run,) = find(store, text(range(16), 80)).runs
    assert run == (0, 16, -6, tuple(blocks[1:]), 2) and run.at_sink
    (run,) = find(store, text(80, range(90, 96), range(16))).runs
    assert (run.start, run.delta) == (1, 1) and run.at_sink, "computed at position 0"


def test_a_donor_without_bos_is_refused() -> None:
    store = Store()
    store.add(text(90, range(20)))
    tokens = text(1, 80, 81, range(20))
    limits = Limits(min_run=1, bos_id=1)
    found = find(store, tokens, limits=limits)
    assert found.runs == [] and found.refused["donor_without_bos"] > 0
    store.add(text(1, range(95, 100), range(20)))
    (run,) = find(store, tokens, limits=limits).runs
    assert (run.start, run.stop, run.delta) == (3, 23, -3)
    assert len(find(store, tokens).runs) == 2


def test_copies_without_bos_do_not_hide_the_one_with_it() -> None:
    store = Store(1024)
    store.add(text(1, 70, 71, 72, range(40)))
    for i in range(7):
        store.add(text(90 + i, 70, 71, 72, range(40)))
    (run,) = find(store, text(1, 80, range(40)), limits=Limits(min_run=30, bos_id=1)).runs
    assert run.delta == -2


def test_only_moves_by_whole_chunks() -> None:
    store = Store()
    store.add(text(90, range(20)))
    limits = Limits(min_run=1, delta_multiple=8)
    assert find(store, text(range(80, 88), range(20)), limits=limits).refused == {
        "delta_off_chunk": 4
    }
    (run,) = find(store, text(range(70, 79), range(20)), limits=limits).runs
    assert run.delta == 8


def test_nothing_in_front_of_the_hit_is_touched() -> None:
    store = Store()
    store.add(text(90, range(20)))
    (run,) = find(store, text(80, range(20)), first=6).runs
    assert (run.start, run.stop, run.delta) == (6, 21, 0)


def test_other_namespaces_are_never_seen() -> None:
    store = Store()
    store.add(text(90, range(20)), b"a")
    store.add(text(91, range(20)), b"b")
    tokens = text(80, 81, range(20))
    assert find(store, tokens).runs == []
    for namespace in (b"a", b"b"):
        (run,) = find_runs(tokens, 0, store.content, namespace, limits=ANY_LENGTH).runs
        assert store.content.first_token(run.blocks[0]) == {b"a": 90, b"b": 91}[namespace]


@pytest.mark.parametrize("length", range(5))
def test_prompts_shorter_than_a_block(length: int) -> None:
    store = Store()
    store.add(text(range(8)))
    assert len(find(store, text(range(length))).runs) == (length == 4)
    assert find(store, text(range(8)), first=8).runs == []


@pytest.mark.report("S23")
def test_reordered_chunks_are_all_found() -> None:
    a, b, c = range(100, 130), range(200, 241), range(300, 317)
    store = Store()
    store.add(text(range(7), a, b, c))
    found = find(store, text(range(7), c, b, a), first=7)
    assert sorted((run.start, run.stop, run.delta) for run in found.runs) == [
        (7, 24, -71),
        (24, 65, -13),
        (65, 95, 58),
    ]


@pytest.mark.report("S24")
def test_chunk_edges_need_not_line_up() -> None:
    """A system prompt of 37 tokens, documents of 300 and 411; the second prompt drops one."""
    store = Store(block_size=16)
    system, one, two = range(37), range(1000, 1300), range(2000, 2411)
    store.add(text(system, one, two))
    (run,) = find(store, text(system, two, 99), first=37, limits=Limits()).runs
    assert (run.start, run.stop, run.delta) == (37, 448, -300)
