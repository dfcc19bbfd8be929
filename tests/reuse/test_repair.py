"""Which tokens each repair computes again, and how it is written."""

from __future__ import annotations

import pytest
from reuse.texts import run

from kvtool.errors import ConfigError
from kvtool.reuse.repair import parse_repair

SIZE = 16


@pytest.mark.parametrize(
    ("text", "num_tokens", "leading", "selected"),
    [
        ("none", 400, 0, 0),
        ("auto", 20, 20, 0),
        ("auto", 128, 32, 0),
        ("auto", 129, 48, 0),
        ("auto", 400, 112, 0),
        ("first:32", 400, 32, 0),
        ("first:500", 400, 400, 0),
        ("attn:0.15", 400, 0, 60),
        ("vdev:.15", 401, 0, 61),
        ("kdev:1", 400, 0, 400),
    ],
)
def test_tokens_computed_again(text: str, num_tokens: int, leading: int, selected: int) -> None:
    repair = parse_repair(text)
    assert repair.num_leading(num_tokens, False, SIZE) == leading
    assert repair.num_selected(num_tokens - leading) == selected
    assert repair.cost(num_tokens, False, SIZE) == leading + selected
    moved = run(1000, 1000 + num_tokens, 10)
    assert repair.recomputed(moved, SIZE) == [(1000, 1000 + leading)] * (leading > 0)


@pytest.mark.parametrize("text", ["none", "attn:0.5", "first:3"])
@pytest.mark.parametrize("sink", [run(0, 100, -40), run(40, 140, 40)])
def test_a_sink_is_computed_again_under_every_repair(text: str, sink: object) -> None:
    repair = parse_repair(text)
    assert repair.recomputed(sink, SIZE) == [(sink.start, sink.start + SIZE)]
    assert repair.cost(100, True, SIZE) == SIZE + (42 if repair.selects else 0)


def test_short_runs_are_computed_again_altogether() -> None:
    assert parse_repair("none").recomputed(run(0, 5, -40), SIZE) == [(0, 5)]


@pytest.mark.parametrize(
    "text", ["auto", "none", "first:999999999", "attn:0.15", "vdev:1", "kdev:0.125"]
)
def test_a_repair_is_printed_as_it_is_written(text: str) -> None:
    assert str(parse_repair(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "all", "auto:3", "none:", "first", "first:", "first:0", "first:-1", "first:1.5"),
        *("first:1_0", "first:9999999999", "attn", "attn:0", "attn:1.01", "attn:nan"),
        *("attn:1e-1", "vdev:-0.1", "kdev: 0.1", "ATTN:0.1", "attn:0.1:2"),
    ],
)
def test_anything_else_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_repair(text)
    assert repr(text) in error.value.message and "allowed: " in error.value.message
    assert error.value.hint
