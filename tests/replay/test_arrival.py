"""Replay by arrival: overlap, closed loops, and replies in bulk."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay.prepared_requests import HASH_IDS, blocks_needed, prepared, replay, traces

from kvtool.cache.eviction import POLICIES
from kvtool.errors import CacheError, InputError
from kvtool.replay.arrivals import awaited_ids
from kvtool.replay.cost import CostModel
from kvtool.traces.prepared import PreparedRequest

EXACT = CostModel(prefill_rate=64, decode_rate=32)  # sums of its times have no rounding


@given(
    traces(),
    st.integers(0, 6),
    st.sampled_from(sorted(POLICIES)),
    st.sampled_from(["radix", "chain"]),
    st.sampled_from([1, 2, 3, 64]),
    st.sampled_from([1, 5, 64]),
)
@settings(max_examples=200, deadline=None)
def test_bulk_equals_stepwise(
    requests: list[PreparedRequest],
    spare: int,
    evict: str,
    prefix_index: str,
    seqs: int,
    budget: int,
) -> None:
    cache = {"evict": evict, "prefix_index": prefix_index}
    assert_bulk_equals_stepwise(
        requests, spare, cache=cache, max_num_seqs=seqs, max_num_batched_tokens=budget
    )


def assert_bulk_equals_stepwise(
    requests: list[PreparedRequest], spare: int, **settings: Any
) -> None:
    """spare: blocks beside those of the largest request."""
    bulk, stepwise = (
        replay(
            requests,
            blocks_needed(requests) + spare,
            mode="arrival",
            output_kv=True,
            cost=EXACT,
            stepwise=stepwise,
            **settings,
        )[0]
        for stepwise in (False, True)
    )
    for field in ("hit_tokens", "preemptions", "start_s", "first_token_s", "end_s"):
        told, true = ([getattr(o, field) for o in outcomes] for outcomes in (bulk, stepwise))
        assert told == true, field


def test_bulk_with_a_copy_of_a_shared_tail() -> None:
    """It takes a block that the reply's own tokens need."""
    prompts = [[1], [1], [1, 1], [1], [1]]
    requests = [prepared(i, prompt) for i, prompt in enumerate(prompts)]
    assert_bulk_equals_stepwise([*requests, prepared(5, [1], output=9, arrival_s=0.125)], 0)


def test_bulk_with_somebody_about_to_enter() -> None:
    """The second found no room in the step before for its tokens, not for its blocks."""
    first = prepared(0, [1, 2, 2, 1, 3, 1, 2, 2], output=11)
    reply = [1, 1, 1, 1, 2, 3, 3, 2, 3, 1, 2]
    second = prepared(1, [1, 2, 2, 1, 3, 1, 2, 2, 2, 1, 2, 2, 2], reply=reply)
    assert_bulk_equals_stepwise([first, second], 8, max_num_batched_tokens=5)


@given(traces(HASH_IDS), st.booleans())
@settings(max_examples=100, deadline=None)
def test_hash_ids_by_arrival(requests: list[PreparedRequest], output_kv: bool) -> None:
    num_blocks = blocks_needed(requests, HASH_IDS) + 1
    outcomes, result = replay(
        requests, num_blocks, unit=HASH_IDS, mode="arrival", output_kv=output_kv
    )
    assert len(outcomes) == len(requests) == result.totals.requests
    for outcome in outcomes:
        assert outcome.arrival_s <= outcome.start_s < outcome.first_token_s <= outcome.end_s
        assert outcome.hit_tokens + outcome.in_flight_tokens <= outcome.prompt_tokens


def test_far_apart_arrivals_equal_serial_replay() -> None:
    prompts = [[1, 2, 3, 4, 5], [1, 2, 3, 4, 9], [1, 2, 3, 4, 5, 6, 7, 8, 9]]
    requests = [prepared(i, prompt, arrival_s=100.0 * i) for i, prompt in enumerate(prompts)]
    serial, arrival = (replay(requests, 4, mode=mode)[0] for mode in ("serial", "arrival"))
    assert [o.hit_tokens for o in serial] == [o.hit_tokens for o in arrival]
    assert [o.arrival_s for o in arrival] == [0.0, 100.0, 200.0]


def test_a_closed_loop_waits_for_the_reply_and_the_delay() -> None:
    first = prepared(0, range(1, 9), output=33)
    second = prepared(1, range(1, 17), arrival_s=None, after=("r0",), delay_s=2.0)
    for output_kv in (False, True):
        (a, b), _ = replay([first, second], 99, mode="arrival", cost=EXACT, output_kv=output_kv)
        assert a.end_s == 8 / 64 + 32 / 32
        assert b.arrival_s == a.end_s + 2.0
        assert b.hit_tokens == 8


def test_a_recorded_time_is_the_earliest() -> None:
    second = prepared(1, [1], arrival_s=50.0, after=("r0",), delay_s=2.0)
    (_, b), _ = replay([prepared(0, [1]), second], 9, mode="arrival", cost=EXACT)
    assert b.arrival_s == 50.0


def test_a_prefix_under_way_is_waited_for_and_said() -> None:
    """Blocks that somebody computes are waited for; less than one more block is computed twice."""
    requests = [prepared(0, range(1, 10)), prepared(1, [1, 2, 3, 4, 5, 6, 7, 8, 11])]
    (a, b), _ = replay(requests, 99, mode="arrival", cost=EXACT)
    assert b.start_s == a.first_token_s and b.hit_tokens == 8
    assert a.in_flight_tokens == b.in_flight_tokens == 0


def test_awaited_ids_bound_what_is_remembered() -> None:
    requests = [prepared(i, [1], after=(f"r{i - 1}",) if i % 2 else ()) for i in range(6)]
    assert awaited_ids(r.request for r in requests) == {"r0", "r2", "r4"}


@pytest.mark.parametrize("after", [("nobody",), ("r2",)])
def test_what_never_arrives_is_an_error(after: tuple[str, ...]) -> None:
    requests = [
        prepared(0, [1]),
        prepared(1, [1], after=after),
        prepared(2, [1], after=("r1",)),
    ]
    with pytest.raises(InputError, match=rf"trace.jsonl:2: request r1 waits for {after[0]}"):
        replay(requests, 9, mode="arrival")
    assert len(replay(requests, 9, mode="serial")[0]) == 3


def test_without_times_there_is_no_arrival() -> None:
    with pytest.raises(InputError, match=r"trace.jsonl:1: request r0 has no arrival time"):
        replay([prepared(0, [1], arrival_s=None)], 9, mode="arrival")


@pytest.mark.parametrize("mode", ["serial", "arrival"])
@pytest.mark.parametrize("output_kv", [False, True])
def test_a_request_larger_than_the_pool_is_named(mode: str, output_kv: bool) -> None:
    requests = [prepared(0, [1, 2]), prepared(1, range(1, 13), output=5)]
    needed = 4 if output_kv else 3
    replay(requests, needed, mode=mode, output_kv=output_kv)
    with pytest.raises(CacheError, match=rf"trace.jsonl:2: request r1 takes {needed} blocks"):
        replay(requests, needed - 1, mode=mode, output_kv=output_kv)


def test_a_request_of_the_past_arrives_late() -> None:
    requests = [prepared(0, [1], arrival_s=5.0), prepared(1, [2], arrival_s=1.0)]
    outcomes, _ = replay(requests, 9, mode="arrival")
    assert [o.arrival_s for o in outcomes] == [5.0, 1.0]
    assert outcomes[1].start_s >= 5.0
