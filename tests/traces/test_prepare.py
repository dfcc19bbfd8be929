"""Hash ids as symbols: equal where and only where the ids are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traces.files import Row, blocks, opened

from kvtool.traces.hash_symbols import HashSymbols
from kvtool.traces.prepare import prepare, unit_of
from kvtool.traces.prepared import PreparedRequest, Unit
from kvtool.traces.trace_request import BlockPrompt

ids = st.sampled_from([0, 1, "1", "01", 2**32, 2**32 + 1, 2**63, -1, 2**200, "a" * 64])


def prepared(folder: Path, *rows: Row) -> list[PreparedRequest]:
    trace = opened(folder, *rows, trace_block_size=512)
    return list(prepare(trace, None, unit_of(trace, 16)))


@pytest.mark.report("S58")
@settings(max_examples=100)
@given(st.lists(st.tuples(st.sampled_from(["", "s"]), st.lists(ids, max_size=5)), max_size=6))
def test_symbols_are_equal_where_the_ids_are(prompts: list[tuple[str, list[int | str]]]) -> None:
    symbols = HashSymbols()
    numbers: dict[tuple[str, int | str], int] = {}
    fresh = 0
    for scope, hash_ids in prompts:
        given_out = len(numbers) + fresh
        read = symbols.of(BlockPrompt(tuple(hash_ids), 1), scope)
        assert read.dtype == np.int32
        if not hash_ids:
            assert read.tolist() == [given_out]
            fresh += 1
        for hash_id, symbol in zip(hash_ids, read.tolist(), strict=False):
            expected = numbers.setdefault((scope, hash_id), len(numbers) + fresh)
            assert symbol == expected


@pytest.mark.report("S58")
def test_ids_of_64_bits_and_text_stay_apart(tmp_path: Path) -> None:
    (one, other) = prepared(tmp_path, blocks(1, 2**32 + 1, 2**63, "1"), blocks("1", 2**63, 1))
    assert one.symbols.tolist() == [0, 1, 2, 3]
    assert other.symbols.tolist() == [3, 2, 0]


def test_what_a_prepared_request_says(tmp_path: Path) -> None:
    rows = [
        blocks(4, 5, tokens=600, timestamp=9, model="m"),
        blocks(4, 6, tokens=1024, output_length=0),
    ]
    early, late = prepared(tmp_path, *rows)
    assert (early.index, late.index) == (1, 0)
    assert (early.symbols.tolist(), late.symbols.tolist()) == ([0, 1], [0, 2])
    assert (early.num_tokens, late.num_tokens) == (1024, 600)
    assert (early.num_output_tokens, late.num_output_tokens) == (0, 1)
    assert early.namespace != late.namespace  # another model
    assert (len(late.reply), late.segments) == (0, ())


def test_namespaces_tell_absent_from_empty(tmp_path: Path) -> None:
    rows = [blocks(1), blocks(1, model=""), blocks(1, model="null"), blocks(1)]
    spaces = [request.namespace for request in prepared(tmp_path, *rows)]
    assert spaces[0] == spaces[3]
    assert len(set(spaces)) == 3


def test_units(tmp_path: Path) -> None:
    trace = opened(tmp_path, blocks(1), trace_block_size=512)
    assert unit_of(trace, 16) == Unit(tokens_per_symbol=512, block_size=1)
    text = opened(tmp_path, {"text_input": "hi", "output_length": 1})
    assert unit_of(text, 16) == Unit(tokens_per_symbol=1, block_size=16)


def test_prompts_shorter_than_a_block_without_an_id(tmp_path: Path) -> None:
    rows = [blocks(1, tokens=600), blocks(tokens=20), blocks(tokens=20), blocks(1, 2, tokens=1100)]
    read = prepared(tmp_path, *rows)
    assert [request.symbols.tolist() for request in read] == [[0], [1], [2], [0, 3]]
    assert [request.num_tokens for request in read] == [600, 20, 20, 1100]
