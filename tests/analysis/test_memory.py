"""Contiguous, paged and shared memory, against counting every window of running requests."""

from analysis.small_traces import TEXT, Turn, accesses_of, plain, traces
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.analysis.memory import layouts


def peaks(rows):
    return {row.layout: row.peak_tokens for row in rows}


@given(traces(), st.integers(1, 14))
@settings(max_examples=30)
def test_every_window(trace, concurrency):
    turns, unit = trace
    size = unit.block_tokens
    requests = plain(turns, unit).requests
    lengths = [turn.num_tokens + turn.output_tokens for turn in turns]
    blocks = [-(-length // size) for length in lengths]
    windows = [range(max(0, i + 1 - concurrency), i + 1) for i in range(len(turns))]
    shared = [
        len({block for r in window for block in requests[r]})
        + sum(blocks[r] - len(requests[r]) for r in window)
        for window in windows
    ]
    assert peaks(layouts(accesses_of(turns, unit), concurrency)) == {
        "used": max(sum(lengths[r] for r in window) for window in windows),
        "contiguous": max(lengths) * min(concurrency, len(turns)),
        "paged": max(sum(blocks[r] for r in window) for window in windows) * size,
        "paged+shared": max(shared) * size,
    }


def test_by_hand():
    # Two requests of 5 and 6 + 1 tokens share the block [1 2]; blocks of two tokens.
    turns = [Turn([1, 2, 3, 4, 5]), Turn([1, 2, 6, 7, 8, 9], output_tokens=1)]
    rows = layouts(accesses_of(turns, TEXT), 2, max_length=100)
    assert peaks(rows) == {"used": 12, "contiguous": 200, "paged": 14, "paged+shared": 12}
    assert rows[1].peak_bytes(10) == 2000


def test_an_empty_trace_takes_nothing():
    assert set(peaks(layouts(accesses_of([], TEXT), 3)).values()) == {0}
