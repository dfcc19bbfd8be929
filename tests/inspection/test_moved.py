"""Stored text that a prompt has at another position."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inspection.small_cache import NAMESPACE, decode, encode, other, put

from kvtool.inspection.moved import Piece, moved_pieces, with_moved
from kvtool.inspection.prompt_span import Span, compute
from kvtool.inspection.served import Rules
from kvtool.inspection.why import explain
from kvtool.tiers.disk.catalog import Catalog

LETTERS = "abcdefghijklmnop"


def pieces(catalog: Catalog, text: str, start: int = 0, shortest: int = 4) -> list[Piece]:
    return moved_pieces(catalog.entries(), encode(text), start, shortest)


def test_nothing_stored(catalog: Catalog) -> None:
    assert pieces(catalog, "abcdefgh") == []
    put(catalog, encode("abc"))  # no full block
    assert pieces(catalog, "zabc", shortest=1) == []


@pytest.mark.parametrize("delta", [-3, -1, 1, 2, 5])
def test_a_text_is_found_at_any_distance_and_to_the_token(catalog: Catalog, delta: int) -> None:
    stored = "xyz" + LETTERS
    entry = put(catalog, encode(stored))
    prompt = "u" * (3 + delta) + LETTERS + "v"
    start = 3 + delta
    assert pieces(catalog, prompt) == [Piece(start, start + 16, delta, entry.key)]


def test_a_text_in_several_runs_is_one_piece(catalog: Catalog) -> None:
    text = "wxyz" + LETTERS
    first = put(catalog, encode(text[:12]))
    put(catalog, encode(text), first_block=3)
    assert pieces(catalog, "u" + LETTERS) == [Piece(1, 17, -3, first.key)]


def test_text_at_its_own_position_is_not_moved(catalog: Catalog) -> None:
    put(catalog, encode("wxyz" + LETTERS))
    assert pieces(catalog, "uuuu" + LETTERS) == []


def test_the_longest_of_several_copies(catalog: Catalog) -> None:
    put(catalog, encode("z" + LETTERS[:9]))
    longer = put(catalog, encode("yz" + LETTERS))
    assert pieces(catalog, "uvw" + LETTERS) == [Piece(3, 19, 1, longer.key)]


def test_short_pieces_and_pieces_in_front_do_not_count(catalog: Catalog) -> None:
    put(catalog, encode("z" + LETTERS))
    assert pieces(catalog, "uv" + LETTERS[:8], shortest=9) == []
    assert [p[:3] for p in pieces(catalog, "uv" + LETTERS, start=6)] == [(6, 18, 1)]


def test_the_same_text_three_times(catalog: Catalog) -> None:
    put(catalog, encode("z" + LETTERS))
    found = pieces(catalog, "uv" + 3 * LETTERS)
    assert [p[:3] for p in found] == [(2, 18, 1), (18, 34, 17), (34, 50, 33)]


@settings(max_examples=60)
@given(st.text("ab", min_size=8, max_size=24), st.text("ab", min_size=1, max_size=40))
def test_what_is_named_is_stored_there(
    tmp_path_factory: pytest.TempPathFactory, stored: str, prompt: str
) -> None:
    catalog = Catalog.open(tmp_path_factory.mktemp("kv"), create=True)
    put(catalog, encode(stored))
    end = 0
    for piece in pieces(catalog, prompt):
        assert end <= piece.start < piece.stop <= len(prompt)
        there = slice(piece.start - piece.delta, piece.stop - piece.delta)
        assert stored[there] == prompt[piece.start : piece.stop]
        end = piece.stop
    catalog.close()


def cut(spans: list[Span], *found: Piece) -> list[tuple[int, int, str | None, int | None]]:
    parts = with_moved(spans, found)
    assert parts[0].start == spans[0].start and parts[-1].end == spans[-1].end
    assert all(a.end == b.start for a, b in pairwise(parts))
    return [(part.start, part.end, part.reason, part.delta) for part in parts]


def test_spans_are_cut_where_a_piece_stands() -> None:
    spans = [compute(2, 10, "evicted"), compute(10, 20, "diverges")]
    assert cut(spans) == [(2, 10, "evicted", None), (10, 20, "diverges", None)]
    assert cut(spans, Piece(2, 20, 5, "k")) == [
        (2, 10, "other_position", 5),
        (10, 20, "other_position", 5),
    ]
    assert cut(spans, Piece(4, 6, 1, "k"), Piece(12, 18, -2, "k")) == [
        (2, 4, "evicted", None),
        (4, 6, "other_position", 1),
        (6, 10, "evicted", None),
        (10, 12, "diverges", None),
        (12, 18, "other_position", -2),
        (18, 20, "diverges", None),
    ]


def test_why_tells_of_it(catalog: Catalog) -> None:
    text = np.tile(encode(LETTERS), 12)[:140] + np.arange(140, dtype=np.int32) * 16
    entry = put(catalog, [1, 2, 3, *text.tolist()])
    prompt = np.array([5, *text.tolist(), 9], dtype=np.int32)
    found = explain(catalog, NAMESPACE, prompt, Rules(), lambda ids: "")
    assert [(s.start, s.end, s.reason, s.delta) for s in found.spans] == [
        (0, 1, "diverges", None),
        (1, 141, "other_position", -2),
        (141, 142, "diverges", None),
    ]
    first, moved, rest = found.spans
    assert first.first_difference is not None and rest.first_difference is None
    assert moved.detail == (
        f"the same text is stored at position 3 of run {entry.key[:12]}; --reuse shift takes it "
        "from there"
    )


def test_another_namespace_is_no_donor(catalog: Catalog) -> None:
    put(catalog, [1, 2, 3, *range(10, 150)], other(salt="s"))
    prompt = np.array([5, *range(10, 150), 9], dtype=np.int32)
    found = explain(catalog, NAMESPACE, prompt, Rules(), decode)
    assert [s.reason for s in found.spans] == ["nothing_stored"]
