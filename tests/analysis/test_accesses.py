"""Requests as block accesses: equal numbers for equal prefixes, and nothing lost."""

import itertools

from analysis.small_traces import IDS, TEXT, Turn, accesses_of, plain, traces
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.analysis.measurable import num_free_ids, why_not_moved


@given(traces())
@settings(max_examples=30)
def test_equal_ids_are_equal_prefixes(trace):
    turns, unit = trace
    requests, weights, num_tokens = plain(turns, unit)
    accesses = accesses_of(turns, unit)
    flat = [block for blocks in requests for block in blocks]
    assert len(accesses) == len(flat)
    assert len(set(zip(accesses.blocks.tolist(), flat))) == len(set(flat)) == accesses.num_blocks
    assert len(set(accesses.blocks.tolist())) == accesses.num_blocks
    assert accesses.tokens.tolist() == [w for own in weights for w in own]
    assert accesses.num_tokens == num_tokens
    bounds = accesses.starts.tolist()
    assert [b - a for a, b in itertools.pairwise(bounds)] == [len(blocks) for blocks in requests]


@given(traces())
@settings(max_examples=30)
def test_equal_contents_are_equal_symbols(trace):
    turns, unit = trace
    size, accesses = unit.block_size, accesses_of(*trace)
    flat = [
        tuple(t.symbols[i : i + size])
        for t in turns
        for i in range(0, len(t.symbols) - size + 1, size)
    ]
    assert len(set(zip(accesses.contents.tolist(), flat))) == len(set(flat))


@given(traces())
@settings(max_examples=30)
def test_previous_and_following(trace):
    accesses = accesses_of(*trace)
    blocks = accesses.blocks.tolist()
    for i, block in enumerate(blocks):
        before = [j for j in range(i) if blocks[j] == block]
        behind = [j for j in range(i + 1, len(blocks)) if blocks[j] == block]
        assert accesses.previous[i] == (before[-1] if before else -1)
        assert accesses.following[i] == (behind[0] if behind else -1)


@given(traces(), st.randoms())
@settings(max_examples=25)
def test_reordered_is_the_trace_in_that_order(trace, dice):
    turns, unit = trace
    order = list(range(len(turns)))
    dice.shuffle(order)
    shuffled = accesses_of(turns, unit).reordered(order)
    direct = accesses_of([turns[i]._replace(index=i) for i in order], unit)
    assert len(set(zip(shuffled.blocks, direct.blocks))) == direct.num_blocks
    for name in ("tokens", "starts", "rest", "outputs", "arrivals", "priorities", "positions"):
        assert getattr(shuffled, name).tolist() == getattr(direct, name).tolist(), name


def test_text_behind_the_last_block_is_counted_apart():
    accesses = accesses_of([Turn([1, 2, 3]), Turn([4])], TEXT)
    assert (accesses.tokens.tolist(), accesses.rest.tolist()) == ([2], [1, 1])
    assert accesses.num_tokens == 4


def test_the_last_block_of_a_hash_trace_may_be_short():
    accesses = accesses_of([Turn([7, 8], num_tokens=5)], IDS)
    assert (accesses.tokens.tolist(), accesses.rest.tolist()) == ([4, 1], [0])


def test_other_namespaces_never_share():
    accesses = accesses_of([Turn([1]), Turn([1], b"other")], IDS)
    assert accesses.num_blocks == 2
    assert accesses.contents.tolist() == [1, 1]


def test_ids_that_follow_one_predecessor_only_are_chained():
    chained = accesses_of([Turn([1, 2, 3]), Turn([1, 2, 4])], IDS)
    assert num_free_ids(chained) == 0
    assert "not measurable on this trace" in why_not_moved(chained)
    free = accesses_of([Turn([1, 2, 3]), Turn([5, 2]), Turn([3])], IDS)
    assert num_free_ids(free) == 2  # 2 behind 1 and 5; 3 behind 2 and at the start
    assert why_not_moved(free) is None


def test_of_text_moves_are_always_measurable():
    assert why_not_moved(accesses_of([Turn([1, 2])], TEXT)) is None
