"""Stored chains as donors, against brute force, while runs come and go."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reuse.oracle import agreements
from reuse.texts import text

from kvtool.cache.backing import Run
from kvtool.cache.block_keys import BlockKeys
from kvtool.cache.block_pool import Tokens
from kvtool.reuse.refusals import Limits
from kvtool.reuse.runs import find_runs
from kvtool.tiers.text import stored_text
from kvtool.tiers.text.listing import Head
from kvtool.tiers.text.stored_text import StoredText

SPACE = b"n".ljust(32)


def run_of(tokens: Tokens, start: int = 0, stop: int | None = None, size: int = 4) -> Run:
    keys = BlockKeys(SPACE, tokens, size)
    stop = len(keys) if stop is None else stop
    part = tokens[start * size : stop * size]
    return Run(SPACE, keys.parent(start), tuple(keys.span(start, stop)), part, start * size)


def find(source: StoredText, tokens: Tokens, first: int = 0, depth: int = 255) -> set[tuple]:
    found = find_runs(tokens, first, source, SPACE, limits=Limits(1, max_depth=depth))
    for run in found.runs:
        held = source.tokens(list(run.blocks)).reshape(-1)[run.offset :][: run.num_tokens]
        assert held.tolist() == tokens[run.start : run.stop].tolist()
        assert run.start - run.delta == source.home(run.blocks[0]) + run.offset
        for before, behind in pairwise(run.blocks):
            assert source.parent_key(behind) == source.key(before)
    return {(run.start, run.stop, run.delta) for run in found.runs}


def expected_runs(donors: list[Tokens], tokens: Tokens, first: int, size: int) -> set[tuple]:
    """Per start and delta, the longest over the donors, with a whole full block inside."""
    longest: dict[tuple[int, int, tuple[int, ...]], int] = {}
    for donor in donors:
        for delta in range(first - len(donor) + 1, len(tokens)):
            for start, stop in agreements(tokens, first, donor, delta):
                whole = -(-(start - delta) // size) * size
                if whole + size <= min(stop - delta, len(donor) // size * size):
                    # Of chains that share the block in which the run begins it is one run.
                    name = (start, delta, tuple(donor[: (start - delta) // size * size + size]))
                    longest[name] = max(stop, longest.get(name, 0))
    return {(start, stop, delta) for (start, delta, _), stop in longest.items()}


def woven(rng: np.random.Generator, pieces: list[Tokens]) -> Tokens:
    parts: list[Tokens] = []
    for _ in range(int(rng.integers(1, 5))):
        piece = pieces[int(rng.integers(len(pieces)))]
        start, stop = np.sort(rng.integers(0, len(piece) + 1, 2)).tolist()
        noise = rng.integers(1000, 2**31 - 1, int(rng.integers(1, 4)))
        parts += [piece[start:stop], noise.astype(np.int32)]
    return np.concatenate(parts)


@pytest.fixture(scope="module")
def every_copy() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_text, "MAX_COPIES", 10**6)
        yield


@pytest.mark.usefixtures("every_copy")
@pytest.mark.parametrize("size", [1, 3, 4])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_what_is_held_is_found_and_nothing_else(size: int, seed: int) -> None:
    """Donors in runs of several blocks; some are dropped, tails first, and others come back."""
    rng = np.random.default_rng(seed)
    pieces = [np.arange(i * 50, i * 50 + 40, dtype=np.int32) for i in range(3)]
    pieces.append(rng.integers(0, 2, 20).astype(np.int32))
    source = StoredText(SPACE, size)
    live: list[tuple[Tokens, list[list[int]]]] = []
    for _ in range(int(rng.integers(1, 7))):
        if live and rng.random() < 0.4:
            _, held = live.pop(int(rng.integers(len(live))))
            for blocks in reversed(held):
                source.release(blocks)
        else:
            donor = woven(rng, pieces)
            ends = [*range(0, -(-len(donor) // size), int(rng.integers(1, 4))), None]
            held = [source.add(run_of(donor, a, b, size), 0) for a, b in pairwise(ends)]
            assert all(blocks is not None for blocks in held)
            live.append((donor, held))  # type: ignore[arg-type]
        source.check_integrity()
    tokens = woven(rng, pieces)
    first = int(rng.integers(0, len(tokens)))
    donors = [donor for donor, _ in live]
    assert find(source, tokens, first) == expected_runs(donors, tokens, first, size)
    for _, held in live:
        for blocks in reversed(held):
            source.release(blocks)
    source.check_integrity()
    assert source.num_blocks == 0


def test_a_run_without_its_beginning_waits_for_it() -> None:
    source = StoredText(SPACE, 4)
    donor = text(7, range(100, 139))
    tail = run_of(donor, 4)
    assert source.add(tail, 0) is None
    assert source.num_blocks == 0
    head = source.add(run_of(donor, 0, 4), 0)
    blocks = source.add(tail, 0)
    assert head is not None and blocks is not None
    assert source.first_token(blocks[-1]) == 7
    assert source.context(blocks[1], 2, 9).tolist() == donor[13:22].tolist()
    assert source.context(head[0], 3, 9).tolist() == donor[:3].tolist()


def test_a_head_that_is_gone_is_context_only() -> None:
    source = StoredText(SPACE, 4)
    donor = text(7, range(100, 139))
    head, tail = source.add(run_of(donor, 0, 4), 0), source.add(run_of(donor, 4), 0)
    assert head is not None and tail is not None
    source.release(head)
    source.check_integrity()
    assert find(source, donor[:16]) == set()
    assert find(source, donor[20:]) == {(0, 20, -20)}
    assert source.first_token(tail[0]) == 7
    assert source.context(tail[0], 0, 4).tolist() == donor[12:16].tolist()
    assert source.add(run_of(donor, 0, 4), 0) == head
    assert find(source, donor[:16]) == {(0, 16, 0)}
    source.release(head)
    source.release(tail)
    assert source.num_blocks == 0


def test_a_head_given_in_words_stands_in_for_blocks() -> None:
    source = StoredText(SPACE, 4)
    donor = text(7, range(100, 139))
    blocks = source.add(run_of(donor, 4), 0, Head(7, donor[6:16]))
    assert blocks is not None
    assert source.first_token(blocks[3]) == 7 and source.home(blocks[0]) == 16
    assert source.context(blocks[0], 1, 256).tolist() == donor[6:17].tolist()
    assert source.context(blocks[2], 0, 3).tolist() == donor[21:24].tolist()
    assert find(source, text(1, donor[15:30])) == {(2, 16, -14)}


def test_of_equal_texts_the_last_stored_comes_first() -> None:
    source = StoredText(SPACE, 4)
    for name in range(20):
        source.add(run_of(text(range(name * 10 + 1000, name * 10 + 1004), range(8))), name)
    found = find_runs(text(range(8)), 0, source, SPACE, limits=Limits(1))
    uses = [source.last_use(run.blocks[0]) for run in found.runs]
    assert uses == [19, 18, 17, 16], "as many as a token is compared with"


def test_a_hash_that_always_collides_makes_no_false_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        stored_text, "window_hashes", lambda t, size: np.zeros(max(0, len(t) - size + 1), "u8")
    )
    monkeypatch.setattr(stored_text, "block_hashes", lambda b: np.zeros(len(b), "u8"))
    source = StoredText(SPACE, 4)
    donor = text(range(8))
    source.add(run_of(text(range(50, 58))), 0)
    source.add(run_of(donor), 0)
    assert find(source, text(99, donor, 98)) <= {(1, 9, 1)}
    source.check_integrity()


def test_another_namespace_is_not_seen() -> None:
    source = StoredText(SPACE, 4)
    source.add(run_of(text(range(8))), 0)
    assert (source.newest(text(range(8)), b"other".ljust(32)) == -1).all()
    assert (source.newest(text(range(8)), SPACE) >= 0).tolist() == [True, *[False] * 3, True]
