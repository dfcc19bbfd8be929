"""The block size of a trace against trying all of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.errors import InputError
from kvtool.traces.block_fit import BlockFit
from kvtool.traces.read_log import BadRecord

LARGEST = 80
requests = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 12)), min_size=1, max_size=6)


def sizes_by_trying(rows: list[tuple[int, int]], whole: bool) -> list[int]:
    def count(tokens: int, size: int) -> int:
        return -(-tokens // size) if whole else tokens // size

    return [
        size
        for size in range(1, LARGEST)
        if all(count(tokens, size) == ids for tokens, ids in rows)
    ]


@settings(max_examples=300)
@given(requests)
def test_it_accepts_what_some_size_fits_and_names_the_only_one(rows: list[tuple[int, int]]) -> None:
    fit, accepted = BlockFit(), []
    for tokens, ids in rows:
        possible = any(
            sizes_by_trying([*accepted, (tokens, ids)], whole) for whole in (True, False)
        )
        try:
            fit.add(tokens, ids)
        except BadRecord:
            assert not possible
        else:
            assert possible
            accepted.append((tokens, ids))
    expected = sizes_by_trying(accepted, True) or sizes_by_trying(accepted, False)
    if len(expected) == 1:
        assert fit.size() == expected[0]
    else:
        with pytest.raises(InputError, match="every size from"):
            fit.size()


@settings(max_examples=100)
@given(requests)
def test_it_decides_the_same_at_a_second_reading(rows: list[tuple[int, int]]) -> None:
    fit = BlockFit()
    assert decisions(fit, rows) == decisions(fit, rows)


def decisions(fit: BlockFit, rows: list[tuple[int, int]]) -> list[bool]:
    accepted = []
    for tokens, ids in rows:
        try:
            fit.add(tokens, ids)
        except BadRecord:
            accepted.append(False)
        else:
            accepted.append(True)
    return accepted


def test_the_error_names_usual_sizes_among_the_possible() -> None:
    fit = BlockFit()
    fit.add(2000, 4)
    with pytest.raises(InputError) as error:
        fit.size()
    assert "from 500 to 666 tokens" in error.value.message
    assert error.value.hint == "Say which: --trace-block-size 512."


@pytest.mark.report("S59")
@pytest.mark.parametrize(
    ("tokens", "ids", "needed"), [(20, 2, "need 1 ids, there are 2"), (1024, 1, "need 2 ids")]
)
def test_a_count_that_does_not_fit_is_refused(tokens: int, ids: int, needed: str) -> None:
    with pytest.raises(BadRecord, match=needed):
        BlockFit(512).add(tokens, ids)


def test_a_trace_writes_rests_in_one_way() -> None:
    fit = BlockFit(64)
    fit.add(128, 2)
    fit.add(130, 2)  # the rest of 2 tokens has no id
    with pytest.raises(BadRecord, match="does not fit"):
        fit.add(130, 3)


def test_a_stated_size_must_not_change() -> None:
    fit = BlockFit()
    fit.state(64)
    fit.state(64)
    with pytest.raises(BadRecord, match="128, it was 64"):
        fit.state(128)
