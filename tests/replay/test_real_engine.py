"""The simulated and the real executor under one clock: the same hits, evictions and blocks."""

from __future__ import annotations

from typing import Any

import pytest
from engine.tiny_engine import paged_model
from replay.prepared_requests import prepared, replay
from shift.shift_engine import movable

from kvtool.engine.model_executor import ModelExecutor
from kvtool.models.hf import PagedModel
from kvtool.replay.cost import CostModel
from kvtool.traces.prepared import PreparedRequest

COST = CostModel(prefill_rate=64, decode_rate=32)


def agents() -> list[PreparedRequest]:
    """Three conversations over one system prompt: closed loops that overlap, replies recorded."""
    system = [5 + i * 7 % 100 for i in range(21)]
    requests = []
    for agent in range(3):
        history = [*system, 110 + agent]
        for turn in range(3):
            reply = [10 + agent, *(20 + (turn * 5 + i) % 60 for i in range(6 + agent))]
            requests.append(
                prepared(
                    len(requests),
                    history,
                    reply=reply,
                    arrival_s=0.25 * agent if turn == 0 else None,
                    after=(f"r{len(requests) - 1}",) if turn else (),
                    delay_s=0.125,
                )
            )
            history = [*history, *reply, 90 + turn, 91, 92]
    return requests


@pytest.mark.parametrize("mode", ["serial", "arrival"])
@pytest.mark.parametrize("num_blocks", [200, 16], ids=["ample", "starved"])
@pytest.mark.parametrize("prefix_index", ["radix", "chain"])
def test_identical(mode: str, num_blocks: int, prefix_index: str) -> None:
    both = _both(agents(), num_blocks, mode=mode, cache={"prefix_index": prefix_index})
    (simulated, totals), (real, real_totals) = both
    assert simulated == real
    assert totals.totals.evicted_blocks == real_totals.totals.evicted_blocks
    assert (totals.totals.evicted_blocks > 0) == (num_blocks == 16)
    assert totals.occupancy == real_totals.occupancy
    assert sum(outcome.hit_tokens for outcome in real) > 100
    assert all(outcome.block_ids for outcome in real)


def _both(
    requests: list[PreparedRequest],
    num_blocks: int,
    model: PagedModel | None = None,
    **settings: Any,
) -> list[Any]:
    executors = [None, ModelExecutor(model or paged_model(), num_blocks, 4)]
    return [
        replay(
            requests,
            num_blocks,
            executor=executor,
            output_kv=True,
            stepwise=True,
            block_ids=True,
            cost=COST,
            max_num_batched_tokens=16,
            **settings,
        )
        for executor in executors
    ]


def moved_text() -> list[PreparedRequest]:
    """A document behind heads of other lengths, and one conversation that goes on from there."""
    document = [3 + i * 11 % 120 for i in range(40)]
    heads = [[20 + i, *(30 + i * j % 50 for j in range(5 * i + 6))] for i in range(4)]
    prompts = [[*head, *document, 60 + i] for i, head in enumerate(heads)]
    prompts.append([*prompts[-1], 61, 62, 63])
    return [
        prepared(i, prompt, reply=[64 + i, 65, 66, 67], arrival_s=4.0 * i)
        for i, prompt in enumerate(prompts)
    ]


@pytest.mark.parametrize("mode", ["serial", "arrival"])
@pytest.mark.parametrize("repair", ["none", "first:4"])
@pytest.mark.parametrize("num_blocks", [200, 24], ids=["ample", "starved"])
def test_identical_with_moved_text(mode: str, repair: str, num_blocks: int) -> None:
    cache = {"reuse": "shift", "repair": repair, "min_run": 8}
    both = _both(moved_text(), num_blocks, model=movable("llama"), mode=mode, cache=cache)
    (simulated, totals), (real, real_totals) = both
    assert simulated == real
    assert totals.totals.evicted_blocks == real_totals.totals.evicted_blocks
    assert sum(outcome.shifted_tokens for outcome in real) > 60
