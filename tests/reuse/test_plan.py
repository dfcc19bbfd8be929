"""Plans tile the prompt; the last token is always computed; from prompt to plan in one step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reuse.oracle import check_run
from reuse.texts import SIZE, Store, run, text

from kvtool.cache.block_pool import Tokens
from kvtool.reuse.donors import similar
from kvtool.reuse.plan import Plan, Span, make_plan
from kvtool.reuse.planner import Rules, plan_prompt
from kvtool.reuse.refusals import Limits
from kvtool.reuse.repair import parse_repair

REPAIRS = ["auto", "none", "first:3", "attn:0.3", "attn:1"]


def planned(store: Store, tokens: Tokens, num_hit: int, repair: str, min_run: int = 1) -> Plan:
    rules = Rules(Limits(min_run), parse_repair(repair), similar)
    plan = plan_prompt(tokens, num_hit, [store.content], b"", rules).plan
    plan.check_integrity()
    for one in plan.runs:
        check_run(one, tokens, store)
        assert one.num_tokens >= min_run
    return plan


def test_spans_of_a_shift() -> None:
    moved = run(10, 30, 3)
    plan = make_plan(40, 5, [moved], parse_repair("first:6"), SIZE)
    plan.check_integrity()
    assert plan.spans == (
        Span("hit", 0, 5),
        Span("compute", 5, 10),
        Span("recompute", 10, 16, 0),
        Span("shift", 16, 30, 0),
        Span("compute", 30, 40),
    )
    assert plan.rows.tolist() == [*range(5, 16), *range(30, 40)] and plan.rows.dtype == np.int64
    assert plan.tokens_by_source == {
        "hit": 5,
        "shift": 14,
        "select": 0,
        "recompute": 6,
        "compute": 15,
    }


def test_spans_of_a_selecting_repair() -> None:
    plan = make_plan(41, 0, [run(0, 20, -8), run(20, 40, 3)], parse_repair("attn:0.2"), SIZE)
    plan.check_integrity()
    assert plan.spans == (
        Span("recompute", 0, 4, 0),
        Span("select", 4, 20, 0, 4),
        Span("select", 20, 40, 1, 4),
        Span("compute", 40, 41),
    )
    assert plan.num_selected == 8 and plan.rows.tolist() == [0, 1, 2, 3, 40]


@pytest.mark.parametrize("num_hit", [0, 6, 7])
def test_the_last_token_is_computed(num_hit: int) -> None:
    plan = make_plan(7, num_hit, [], parse_repair("auto"), SIZE)
    plan.check_integrity()
    assert plan.rows.tolist() == list(range(min(num_hit, 6), 7))


@pytest.mark.parametrize(
    "spans",
    [
        [Span("hit", 0, 4)],
        [Span("hit", 0, 4), Span("compute", 5, 9)],
        [Span("compute", 0, 8)],
        [Span("shift", 0, 8, 0), Span("compute", 8, 9)],
        [Span("compute", 0, 2), Span("select", 2, 8, 0, 7), Span("compute", 8, 9)],
        [Span("compute", 0, 3), Span("shift", 3, 8, 0), Span("compute", 8, 9)],
        [Span("compute", 0, 2), Span("shift", 2, 8, None), Span("compute", 8, 9)],
    ],
)
def test_check_integrity_refuses(spans: list[Span]) -> None:
    with pytest.raises(AssertionError):
        Plan(9, tuple(spans), (run(2, 8, 1),)).check_integrity()


@pytest.mark.parametrize("repair", REPAIRS)
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1))
def test_every_plan_tiles_and_names_true_slots(repair: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    store = Store(512)
    pieces = [np.arange(i * 50, i * 50 + 40, dtype=np.int32) for i in range(3)]
    pieces.append(rng.integers(0, 2, 30).astype(np.int32))
    texts = []
    for _ in range(4):
        order = rng.integers(0, len(pieces), 4).tolist()
        texts.append(np.concatenate([pieces[i][int(rng.integers(0, 9)) :] for i in order]))
    for one in texts[:-1]:
        store.add(one)
    tokens = texts[-1]
    num_hit = store.prefix.match(tokens, b"").num_tokens
    plan = planned(store, tokens, num_hit, repair, int(rng.integers(1, 20)))
    assert sum(plan.tokens_by_source.values()) == plan.num_tokens == len(tokens)
    assert plan.tokens_by_source["hit"] == min(num_hit, len(tokens) - 1)


@pytest.mark.report("S23")
@pytest.mark.parametrize("repair", REPAIRS[:4])
def test_a_prompt_of_reordered_cached_chunks(repair: str) -> None:
    """Nothing in it is new; the last token is computed all the same, and no span is empty."""
    a, b, c = range(100, 140), range(200, 241), range(300, 347)
    store = Store()
    store.add(text(range(7), a, b, c))
    plan = planned(store, text(range(7), c, b, a), 7, repair)
    assert [(one.start, one.stop) for one in plan.runs] == [(7, 54), (54, 95), (95, 134)]
    assert plan.spans[-1] == Span("compute", 134, 135)


@pytest.mark.report("S24")
def test_a_dropped_document_shifts_the_next_by_any_distance() -> None:
    store = Store(block_size=16)
    system, one, two = range(37), range(1000, 1300), range(2000, 2411)
    store.add(text(system, one, two))
    plan = planned(store, text(system, two, 7), 37, "auto", min_run=128)
    assert [(r.start, r.stop, r.delta) for r in plan.runs] == [(37, 448, -300)]
    assert plan.tokens_by_source == {
        "hit": 37,
        "shift": 299,
        "select": 0,
        "recompute": 112,
        "compute": 1,
    }


@pytest.mark.parametrize("length", [1, 2, 40])
def test_prompts_that_are_cached_from_start_to_end(length: int) -> None:
    store = Store()
    tokens = text(range(length))
    store.add(tokens)
    plan = planned(store, tokens, length, "auto")
    assert plan.tokens_by_source["compute"] == 1 and plan.runs == ()
