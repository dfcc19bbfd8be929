"""Small traces by hand and by chance, in the form that analysis reads."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from analysis.oracle import blocks_of, longest_runs
from hypothesis import strategies as st

from kvtool.analysis.accesses import Accesses
from kvtool.traces.prepared import PreparedRequest, Unit
from kvtool.traces.trace_request import BlockPrompt, Place, TraceRequest


class Turn(NamedTuple):
    """num_tokens: None, every symbol weighs all it can."""

    symbols: list[int]
    namespace: bytes = b""
    num_tokens: int | None = None
    output_tokens: int = 0
    arrival: float | None = None
    priority: int = 0
    index: int | None = None


def prepared(turns: list[Turn], unit: Unit) -> list[PreparedRequest]:
    return [prepare(i, turn, unit) for i, turn in enumerate(turns)]


def prepare(i: int, turn: Turn, unit: Unit) -> PreparedRequest:
    num_tokens = turn.num_tokens or len(turn.symbols) * unit.tokens_per_symbol
    request = TraceRequest(
        id=str(i),
        place=Place("small", i + 1),
        prompt=BlockPrompt(tuple(turn.symbols), num_tokens),
        arrival_s=turn.arrival,
        priority=turn.priority,
    )
    return PreparedRequest(
        index=i if turn.index is None else turn.index,
        request=request,
        symbols=np.array(turn.symbols, dtype=np.int32),
        num_tokens=num_tokens,
        namespace=turn.namespace,
        reply=np.empty(0, dtype=np.int32),
        num_output_tokens=turn.output_tokens,
    )


def accesses_of(turns: list[Turn], unit: Unit) -> Accesses:
    return Accesses.of(prepared(turns, unit), unit)


TEXT = Unit(1, 2)
IDS = Unit(4, 1)


@st.composite
def traces(draw: st.DrawFn, max_requests: int = 12) -> tuple[list[Turn], Unit]:
    """Prompts that continue, branch off or restart earlier ones, in both kinds of trace."""
    unit = draw(st.sampled_from([TEXT, IDS]))
    turns: list[Turn] = []
    now = 0.0
    for _ in range(draw(st.integers(1, max_requests))):
        symbols = draw(st.lists(st.integers(0, 2), min_size=1, max_size=7))
        if turns and draw(st.booleans()):
            earlier = draw(st.sampled_from(turns)).symbols
            symbols = earlier[: draw(st.integers(0, len(earlier)))] + symbols
        now += draw(st.sampled_from([0.0, 1.0, 5.0]))
        short = draw(st.integers(0, unit.tokens_per_symbol - 1))
        turn = Turn(
            symbols,
            draw(st.sampled_from([b"", b"", b"other"])),
            len(symbols) * unit.tokens_per_symbol - short,
            draw(st.integers(0, 9)),
            now,
            draw(st.integers(0, 2)),
        )
        turns.append(turn)
    return turns, unit


class Plain(NamedTuple):
    """The same trace for the oracle. weights: tokens of each block."""

    requests: list[list[tuple]]
    weights: list[list[int]]
    num_tokens: int


def plain(turns: list[Turn], unit: Unit) -> Plain:

    requests = [blocks_of(turn.symbols, unit.block_size, turn.namespace) for turn in turns]
    weights = [weights_of(turn, len(blocks), unit) for turn, blocks in zip(turns, requests)]
    return Plain(requests, weights, sum(turn.num_tokens for turn in turns))


def weights_of(turn: Turn, num_blocks: int, unit: Unit) -> list[int]:
    size = unit.block_size * unit.tokens_per_symbol
    return [min(size, turn.num_tokens - i * size) for i in range(num_blocks)]


def totals(resident: list[list[bool]], weights: list[list[int]]) -> tuple[int, int, int, int]:
    """Prefix blocks and tokens, independent blocks and tokens."""

    runs = longest_runs(resident)
    pairs = [list(zip(row, own)) for row, own in zip(resident, weights)]
    return (
        sum(runs),
        sum(sum(own[:run]) for own, run in zip(weights, runs)),
        sum(hit for row in pairs for hit, _ in row),
        sum(weight for row in pairs for hit, weight in row if hit),
    )
