"""Serial replay: hits as in a textbook LRU cache, by both ways through the cache."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay.prepared_requests import HASH_IDS, TEXT, blocks_needed, prepared, replay, traces

from kvtool.traces.prepared import PreparedRequest


def lru_hits(requests: list[PreparedRequest], num_blocks: int, block_size: int) -> list[int]:
    """Hit blocks of each request in an LRU cache that evicts the tail of a request first, looked
    up whole, then put in."""
    cache: OrderedDict[tuple[Any, ...], None] = OrderedDict()  # next victim first
    hits = []
    for request in requests:
        symbols = request.symbols.tolist()
        ends = range(block_size, len(symbols) + 1, block_size)
        blocks = [(request.namespace, *symbols[:end]) for end in ends]
        hits.append(next((i for i, block in enumerate(blocks) if block not in cache), len(blocks)))
        for block in blocks:
            cache.pop(block, None)
        while len(cache) + len(blocks) > num_blocks:
            cache.popitem(last=False)
        for block in reversed(blocks):
            cache[block] = None
    return hits


@given(traces(HASH_IDS), st.integers(0, 6))
@settings(max_examples=150, deadline=None)
def test_lru_equals_a_brute_force_oracle(requests: list[PreparedRequest], spare: int) -> None:
    num_blocks = max(len(request.symbols) for request in requests) + spare
    outcomes, result = replay(requests, num_blocks, unit=HASH_IDS)
    expected = lru_hits(requests, num_blocks, 1)
    assert [outcome.hit_blocks for outcome in outcomes] == expected
    assert result.totals.hit_blocks == sum(expected)
    assert result.totals.num_blocks == sum(len(request.symbols) for request in requests)


@given(traces(), st.integers(0, 5), st.sampled_from(["lru", "lfu", "fifo", "slru"]))
@settings(max_examples=100, deadline=None)
def test_the_short_way_equals_the_scheduler(
    requests: list[PreparedRequest], spare: int, evict: str
) -> None:
    num_blocks = blocks_needed(requests) + spare
    short, long = (
        replay(requests, num_blocks, cache={"evict": evict}, block_ids=True, stepwise=stepwise)
        for stepwise in (False, True)
    )
    assert short[0] == long[0]
    assert short[1].totals.evicted_blocks == long[1].totals.evicted_blocks


@given(traces(HASH_IDS), st.integers(0, 5))
@settings(max_examples=50, deadline=None)
def test_the_short_way_equals_the_scheduler_on_hash_ids(
    requests: list[PreparedRequest], spare: int
) -> None:
    num_blocks = max(len(request.symbols) for request in requests) + spare
    short, long = (
        replay(
            requests,
            num_blocks,
            unit=HASH_IDS,
            block_ids=True,
            stepwise=stepwise,
            max_num_batched_tokens=2**20,
        )
        for stepwise in (False, True)
    )
    assert short[0] == long[0]


def test_a_matched_hash_id_request_keeps_its_last_block_as_a_hit() -> None:
    twice = [prepared(i, [7, 8, 9], unit=HASH_IDS, num_tokens=1100) for i in range(2)]
    (cold, warm), result = replay(twice, 8, unit=HASH_IDS)
    assert (cold.hit_blocks, warm.hit_blocks, warm.num_blocks) == (0, 3, 3)
    assert (warm.hit_tokens, warm.cached_tokens, warm.computed_tokens) == (1100, 1099, 1)
    assert result.totals.hit_rate == 0.5
    assert warm.cached_by_tier == {"device": 1099}


def test_a_rest_without_an_id_is_computed() -> None:
    twice = [prepared(i, [7, 8], unit=HASH_IDS, num_tokens=1100) for i in range(2)]
    (_, warm), _ = replay(twice, 8, unit=HASH_IDS)
    assert (warm.hit_tokens, warm.computed_tokens) == (1024, 76)


def test_times_add_up_on_the_virtual_clock() -> None:
    from kvtool.replay.cost import CostModel

    cost = CostModel(prefill_rate=8, decode_rate=4, attention=0.5)
    requests = [prepared(i, range(1, 9), output=5, arrival_s=100.0) for i in range(2)]
    (cold, warm), result = replay(requests, 8, cost=cost)
    assert (cold.arrival_s, cold.start_s, cold.queue_s) == (0.0, 0.0, 0.0)
    assert cold.ttft_s == 8 / 8 + 0.5 * 8 * 4
    assert cold.end_s == cold.first_token_s + 4 / 4
    assert warm.arrival_s == cold.end_s
    assert warm.ttft_s == 1 / 8 + 0.5 * 7.5
    assert result.totals.ttft_s.percentile(50) == pytest.approx(warm.ttft_s, rel=0.01)
    assert result.totals.end_s == warm.end_s


@pytest.mark.parametrize("reply", [[4, 5, 6, 7, 8], []])
def test_replies_are_kept_with_output_kv(reply: list[int]) -> None:
    """Of five tokens the last is never fed back."""
    first = prepared(0, [1, 2, 3, 1], reply=reply, output=5)
    second = prepared(1, [1, 2, 3, 1, 4, 5, 6, 7, 8, 9])
    (_, without), _ = replay([first, second], 8)
    (_, with_kv), _ = replay([first, second], 8, output_kv=True)
    assert (without.hit_tokens, with_kv.hit_tokens) == (4, 8 if reply else 4)


def test_hash_id_replies_take_blocks_that_never_hit() -> None:
    requests = [prepared(i, [5, 6], unit=HASH_IDS, num_tokens=700, output=600) for i in range(3)]
    outcomes, result = replay(requests, 9, unit=HASH_IDS, output_kv=True)
    assert [outcome.hit_blocks for outcome in outcomes] == [0, 2, 2]
    assert [outcome.num_blocks for outcome in outcomes] == [2, 2, 2]
    assert result.occupancy[-1].cached == 2 + 3 and result.occupancy[-1].free == 4
    assert TEXT.block_size == 4
