"""Records of approximate KV: what is kept, found and given up, on the toy executor."""

from __future__ import annotations

import numpy as np
import pytest
from engine.toy_engine import expected, held_blocks, toy_request
from engine.workloads import interrupt
from shift.test_no_laundering import DONOR, HEADER, finished, shift_toy_engine

from kvtool.cache import approximate_index
from kvtool.cache.approximate_index import ApproximateIndex
from kvtool.cache.block_pool import BlockPool
from kvtool.cache.events import Event, RunReused, as_json
from kvtool.cache.eviction import lru
from kvtool.cache.group_cache import GroupCache
from kvtool.cache.radix import RadixTree
from kvtool.cache.record import Record
from kvtool.cache.section import COMPUTED, Section
from kvtool.cache.stats import CacheStats
from kvtool.engine.engine import Engine
from kvtool.engine.request import Request
from kvtool.reuse.run import Run

MOVED = len(DONOR) - 4 - 1  # of HEADER + DONOR: without the sink and the last token


def with_record(*, tail: tuple[int, ...] = (), **options: object) -> tuple[Engine, Request]:
    engine = shift_toy_engine(**options)  # type: ignore[arg-type]
    finished(engine, toy_request(DONOR, 1))
    (request,) = finished(engine, toy_request([*HEADER, *DONOR, *tail], 6))
    assert request.usage.shifted_tokens >= MOVED
    assert engine.manager.stats.approximate_records == 1
    return engine, request


def next_turn(engine: Engine, before: Request, *tail: int, **options: object) -> Request:
    prompt = [*before.tokens.tolist(), *tail]
    (request,) = finished(engine, toy_request(prompt, 4, **options))  # type: ignore[arg-type]
    return request


@pytest.mark.parametrize("index", ["radix", "chain"])
@pytest.mark.parametrize("num_groups", [1, 2])
@pytest.mark.parametrize("block_size", [1, 3, 4])
def test_everything_up_to_the_last_computed_token_is_kept(
    index: str, num_groups: int, block_size: int
) -> None:
    engine, request = with_record(index=index, num_groups=num_groups, block_size=block_size)
    for turn in range(3):
        before, request = request, next_turn(engine, request, turn, 1)
        served = request.usage.cached_tokens + request.usage.shifted_tokens
        assert served == before.num_tokens - 1
        assert engine.manager.stats.approximate_records == 1  # the longer one
        assert engine.manager.stats.approximate_tokens >= request.num_tokens - 1 - len(HEADER) - 4
    assert held_blocks(engine) == 0  # a record gives up what others need
    engine.manager.clear()
    assert engine.manager.stats.approximate_records == 0
    assert engine.manager.num_free_blocks == engine.manager.num_blocks


def test_a_record_is_gone_on_from_whatever_min_run_says() -> None:
    engine, request = with_record(min_run=MOVED)
    assert next_turn(engine, request, 1).usage.computed_tokens == 2


def test_a_shorter_agreement_is_cut() -> None:
    engine, _ = with_record()
    prompt = [*HEADER, *DONOR[:12], 4, 4, 4, 4]
    (other,) = finished(engine, toy_request(prompt, 4))
    assert other.usage.cached_tokens == len(HEADER) + 4
    assert other.usage.shifted_tokens == 8 and other.usage.computed_tokens == 4
    assert [run.origin for run in other.moved_runs] == ["approximate"]


def test_text_behind_a_record_is_searched_as_ever() -> None:
    engine, request = with_record()
    turn = next_turn(engine, request, *DONOR, 3, 3)
    assert turn.moved_runs[-1].origin == "pool"
    assert turn.moved_runs[-1].delta == request.num_tokens
    assert "approximate" in {run.origin for run in turn.moved_runs}
    assert turn.usage.shifted_tokens > MOVED + len(DONOR) - 4
    again = next_turn(engine, turn, 1)
    assert {run.origin for run in again.moved_runs} == {"approximate"}
    assert again.usage.computed_tokens == 2


def test_the_exact_beginning_may_be_lost() -> None:
    engine, request = with_record()
    group = engine.manager.groups[0]
    begin = group.match(np.array(HEADER + DONOR, np.int32), b"").block_ids
    assert len(begin) == 4  # three of the header and four tokens of the sink
    while group.tree.is_cached(begin[0]):
        group._evict(1)
    engine.check_integrity()
    turn = next_turn(engine, request, 1)
    assert turn.usage.cached_tokens == 0
    assert turn.usage.computed_tokens == len(HEADER) + 4 + 2
    assert next_turn(engine, turn, 1).usage.computed_tokens == 2


def test_records_go_before_any_exact_block_from_the_end() -> None:
    engine, request = with_record(num_blocks=20)
    stats, manager = engine.manager.stats, engine.manager
    kept = stats.approximate_tokens
    assert manager.num_available_blocks == 20
    fill = manager.num_free_blocks
    finished(engine, toy_request([1] * (4 * fill), 1))
    assert (stats.dropped_tokens, stats.evicted_blocks) == (0, 0)
    finished(engine, toy_request([2] * 4, 1))  # its last block
    assert stats.evicted_blocks == 0 and 0 < stats.dropped_tokens <= 4
    assert stats.approximate_tokens == kept - stats.dropped_tokens
    short = next_turn(engine, request)
    assert short.usage.shifted_tokens > MOVED and short.usage.computed_tokens <= 5
    finished(engine, toy_request([3] * 72, 1))
    assert stats.approximate_records == 0 and stats.evicted_blocks > 0


def test_the_record_used_longest_ago_goes_first() -> None:
    engine = shift_toy_engine(num_blocks=40)
    finished(engine, toy_request(DONOR, 1))
    old, new = (finished(engine, toy_request([*HEADER, *DONOR, i, i], 6))[0] for i in range(2))
    assert next_turn(engine, old, 1).usage.computed_tokens == 2  # used again
    free = engine.manager.num_free_blocks
    finished(engine, toy_request([4] * (4 * free + 4), 1))
    assert engine.manager.stats.evicted_blocks == 0
    assert engine.manager.stats.dropped_tokens > 0
    assert next_turn(engine, old, 1).usage.computed_tokens <= 6
    assert next_turn(engine, new, 1).usage.computed_tokens > 2


def test_a_preempted_request_goes_on_where_it_was() -> None:
    engine = shift_toy_engine(num_blocks=40)
    finished(engine, toy_request(DONOR, 1))
    request = toy_request(HEADER + DONOR, 20)
    engine.add(request)
    for _ in range(8):
        engine.step()
    before = engine.scheduler
    before._preempt(request, before._shareable(request))
    engine.check_integrity()
    computed = engine.executor.computed_tokens  # type: ignore[attr-defined]
    engine.step()
    # Whole blocks of exact KV: one token more than the one that comes next.
    assert engine.executor.computed_tokens - computed == 2  # type: ignore[attr-defined]
    assert request.kv is not None and request.kv.shift is not None
    assert {run.origin for run in request.moved_runs} == {"pool"}  # at first admission
    while engine.has_work:
        engine.step()
    (alone,) = with_record_of(20)
    assert request.output_ids == alone.output_ids


def with_record_of(length: int) -> list[Request]:
    engine = shift_toy_engine(num_blocks=40)
    finished(engine, toy_request(DONOR, 1))
    return finished(engine, toy_request(HEADER + DONOR, length))


def test_an_interrupted_step_costs_no_more_than_the_step() -> None:
    engine = shift_toy_engine(num_blocks=40)
    finished(engine, toy_request(DONOR, 1))
    request = toy_request(HEADER + DONOR, 12)
    engine.add(request)
    for _ in range(5):
        engine.step()
    interrupt(engine)
    engine.check_integrity()
    computed = engine.executor.computed_tokens  # type: ignore[attr-defined]
    engine.step()
    assert engine.executor.computed_tokens - computed == 2  # type: ignore[attr-defined]
    while engine.has_work:
        engine.step()
    (alone,) = with_record_of(12)
    assert request.output_ids == alone.output_ids


@pytest.mark.parametrize("spare", [0, 1, 2])
def test_a_pool_of_exactly_the_needed_size(spare: int) -> None:
    """Also while records hold blocks of it."""
    engine, request = with_record(num_blocks=14)
    last = toy_request([2] * (4 * (14 - spare) - 3), 4)
    (filler,) = finished(engine, last)
    assert filler.output_ids == expected(filler)
    assert engine.manager.stats.approximate_records == 0 or spare
    turn = next_turn(engine, request, *([1] * (14 * 4 - 3 - request.num_tokens)))
    assert turn.num_output_tokens == 4
    engine.manager.clear()
    assert engine.manager.num_free_blocks == 14


def test_exact_requests_read_no_record() -> None:
    engine, request = with_record()
    turn = next_turn(engine, request, 1, shift=False)
    assert turn.usage.shifted_tokens == 0
    assert turn.usage.cached_tokens == len(HEADER) + 4
    assert turn.output_ids == expected(turn)


def test_other_namespaces_have_their_own_records() -> None:
    engine, request = with_record()
    turn = next_turn(engine, request, 1, namespace=b"salt")
    assert turn.usage.cached_tokens == turn.usage.shifted_tokens == 0


def test_tokens_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every beginning has the same hash."""
    monkeypatch.setattr(
        approximate_index, "prefix_hashes", lambda tokens: np.zeros(len(tokens) + 1, np.uint64)
    )
    engine, request = with_record()
    start = len(HEADER) + 4
    prompt = [4, *request.tokens[1:].tolist(), 1]
    (other,) = finished(engine, toy_request(prompt, 4))
    assert all(run.origin == "pool" for run in other.moved_runs)
    assert engine.manager.shift is not None
    found = engine.manager.shift.records.find(np.array(prompt, np.int32), start, b"")
    assert found is None or found.record.tokens[0] == 4


@pytest.mark.parametrize("is_same", [True, False])
def test_the_same_text_behind_another_donor_is_another_record(is_same: bool) -> None:
    engine = shift_toy_engine()
    planner = engine.manager.shift
    assert planner is not None
    donors = [0, 1, 2, 3, 4, *DONOR], [4, 4, 4, 4, 2, *DONOR]
    for donor in donors:
        finished(engine, toy_request(donor, 1, shift=False))
    prompt = [*HEADER, *DONOR, 1]
    kept = []
    for donor in (donors[0], donors[0] if is_same else donors[1]):
        finished(engine, toy_request(donor, 1, shift=False))  # used last
        hidden, planner.records = (
            planner.records,
            ApproximateIndex(engine.manager.groups, CacheStats()),
        )
        engine._check_integrity = False
        finished(engine, toy_request(prompt, 4))
        (record,) = planner.records._records
        planner.records = hidden
        kept.append(record)
    assert (kept[0].provenance == kept[1].provenance) is is_same
    assert kept[1].continues(kept[0], 4) is is_same


def test_events_tell_which_text_was_used() -> None:
    engine = shift_toy_engine()
    events: list[Event] = []
    manager = type(engine.manager)(
        engine.executor.groups, engine.manager.config, events=events.append
    )
    engine.manager = manager
    engine.scheduler = type(engine.scheduler)(manager, engine.scheduler.config)
    finished(engine, toy_request(DONOR, 1))
    stored = [event for event in events if hasattr(event, "token_ids")]
    hashes = tuple(name for event in stored for name in event.block_hashes)
    (request,) = finished(engine, toy_request(HEADER + DONOR, 6))
    (used,) = (event for event in events if isinstance(event, RunReused))
    assert (used.start, used.stop, used.delta) == (13, 28, 9)
    assert used.origin == "pool" and used.block_hashes == hashes[1:5]
    assert as_json(used)["type"] == "RunReused"
    events.clear()
    next_turn(engine, request, 1)
    used_now = [event for event in events if isinstance(event, RunReused)]
    assert {event.origin for event in used_now} == {"approximate"}
    assert (used_now[0].start, used_now[-1].stop) == (13, request.num_tokens - 1)


def records_of(number: int) -> tuple[ApproximateIndex, list[Record]]:
    """One block each behind 40 common tokens."""
    stats = CacheStats()
    group = GroupCache(0, BlockPool(number, 16), RadixTree, lru, stats, None)
    index = ApproximateIndex((group,), stats)
    records = []
    for i in range(number):
        tokens = np.concatenate([np.arange(40), [i // 2, i % 2], np.arange(14)]).astype(np.int32)
        block = group.pool.allocate(1)
        run = Run(40, 56, 0, tuple(block.tolist()), 0)
        record = Record(b"", tokens, [Section((run,), (block,), COMPUTED)], ())
        index.add(record)
        group.let_go(block)
        records.append(record)
    return index, records


def test_hundreds_of_records_cost_a_look_each(monkeypatch: pytest.MonkeyPatch) -> None:
    index, records = records_of(300)
    index.check_integrity()
    compared = []
    monkeypatch.setattr(
        approximate_index,
        "common_prefix",
        lambda a, b: compared.append(1) or int(np.argmax(np.append(a[: len(b)] != b, True))),
    )
    found = index.find(np.append(records[151].tokens, 7).astype(np.int32), 0, b"")
    assert found is not None and found.record is records[151]
    assert (found.start, found.stop) == (40, 56)
    assert len(compared) <= 2


def test_records_are_given_up_from_the_oldest() -> None:
    index, records = records_of(3)
    index.use(records[0])
    assert index.give_up(1)
    assert [index.find(record.tokens, 0, b"").stop for record in records] == [56, 41, 56]  # type: ignore[union-attr]
    assert index.give_up(1) and index.give_up(1) and not index.give_up(1)
