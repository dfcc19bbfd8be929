"""Any interleaving of conversations: a moved or approximate block never serves an exact request."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from engine.toy_engine import expected, held_blocks, toy_request
from engine.workloads import SOAK_FACTOR, interrupt
from hypothesis import given, settings
from hypothesis import strategies as st
from shift.test_no_laundering import _refuse_sometimes, pieces, shift_toy_engine

from kvtool.cache.namespace import Namespace
from kvtool.engine.request import Request

NAMESPACES = [
    Namespace(
        weights="w",
        architecture="toy",
        rope_regime="r",
        compute_dtype="float32",
        kv_dtype="float32",
        kv_layout="l",
        block_size=4,
        tokenizer="t",
        adapter=adapter,
        salt=salt,
    ).digest
    for salt in ("one", "two")
    for adapter in ("a" * 64, "b" * 64)
]
MAX_TOKENS = 120


class Turn(NamedTuple):
    """after: the earlier turn it goes on from; else its pieces are a new prompt."""

    pieces: list[int]
    after: int | None
    reply: int
    shift: bool
    namespace: int
    step: int  # of its arrival, or later where `after` has not ended
    abort_after: int | None  # steps


def random_turns(seed: int) -> list[Turn]:
    """By a seed: what hypothesis draws itself has too few repeated texts."""
    rng = Random(seed)
    turns: list[Turn] = []
    for number in range(rng.randint(4, 14)):
        after = rng.randrange(number) if number and rng.random() < 0.6 else None
        space = rng.choice([0, 0, 0, 1, 2, 3])
        if after is not None and rng.random() < 0.9:
            space = turns[after].namespace
        turns.append(
            Turn(
                pieces=[rng.randint(3, 8) for _ in range(rng.randint(1, 3))],
                after=after,
                reply=rng.randint(1, 8),
                shift=rng.random() < 0.75,
                namespace=space,
                step=rng.randint(0, 20),
                abort_after=rng.randint(0, 6) if rng.random() < 0.1 else None,
            )
        )
    return turns


@st.composite
def conversations(draw: st.DrawFn) -> dict[str, Any]:
    block_size = draw(st.sampled_from([1, 2, 3, 4]))
    least = -(-(MAX_TOKENS + 8) // block_size)
    return {
        "turns": random_turns(draw(st.integers(0, 2**32))),
        "interrupts": draw(st.sets(st.integers(0, 30), max_size=2)),
        "refusals": draw(st.sets(st.integers(0, 3), max_size=2)),
        "engine": {
            "block_size": block_size,
            "num_blocks": least + draw(st.sampled_from([0, 1, 4, 20, 100])),
            "num_groups": draw(st.integers(1, 2)),
            "index": draw(st.sampled_from(["radix", "chain"])),
            "repair": draw(st.sampled_from(["none", "first:2", "auto"])),
            "min_run": draw(st.integers(1, 6)),
            "max_num_seqs": draw(st.sampled_from([1, 3, 64])),
            "max_num_batched_tokens": draw(st.sampled_from([1, 3, 7, 256])),
            "watermark": 0.0,
        },
    }


@settings(max_examples=40 * SOAK_FACTOR)
@given(case=conversations())
def test_exact_requests_get_the_cold_reply(case: dict[str, Any]) -> None:
    """Pools are small: records and exact blocks are evicted, requests preempted."""
    for request in play(case):
        usage = request.usage
        assert usage.computed_tokens >= 0
        served = sum(run.stop - run.start for run in request.moved_runs)
        assert served == usage.shifted_tokens + usage.recomputed_tokens
        if not request.shift:
            assert served == 0 and not request.is_approximate
            length = request.num_output_tokens  # fewer than wanted after an abort
            assert request.output_ids == expected(request, case["engine"]["num_groups"])[:length]


def play(case: dict[str, Any]) -> list[Request]:
    engine = shift_toy_engine(**case["engine"])
    _refuse_sometimes(engine, case["refusals"])
    turns: list[Turn] = case["turns"]
    requests: dict[int, Request] = {}
    added: dict[int, int] = {}
    for step in range(10_000):
        for number, turn in enumerate(turns):
            if number not in requests and step >= turn.step and _is_ready(turn, requests):
                requests[number] = _request(turn, requests)
                added[number] = step
                engine.add(requests[number])
            elif turn.abort_after is not None and step - added.get(number, step) > turn.abort_after:
                engine.abort(requests[number])
        if engine.has_work:
            if step in case["interrupts"]:
                interrupt(engine)
                engine.check_integrity()
            engine.step()
        elif len(requests) == len(turns):
            assert held_blocks(engine) == 0
            engine.manager.clear()
            assert engine.manager.num_free_blocks == engine.manager.num_blocks
            engine.check_integrity()
            return list(requests.values())
    raise AssertionError("the run does not end")


def _is_ready(turn: Turn, requests: dict[int, Request]) -> bool:
    return turn.after is None or (turn.after in requests and requests[turn.after].is_finished)


def _request(turn: Turn, requests: dict[int, Request]) -> Request:
    before = requests[turn.after].tokens.tolist() if turn.after is not None else []
    prompt = (before + pieces(turn.pieces))[:MAX_TOKENS]
    namespace = NAMESPACES[turn.namespace]
    return toy_request(prompt, turn.reply, shift=turn.shift, namespace=namespace)
