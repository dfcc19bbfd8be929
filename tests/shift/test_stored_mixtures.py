"""Whatever mixture of requests runs over a tier: exact ones never rest on moved KV, and nothing
that does is stored."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from engine.toy_engine import VOCAB, expected, held_blocks, toy_request
from engine.toy_executor import ToyExecutor, fold
from hypothesis import example, given, settings
from hypothesis import strategies as st
from shift.test_no_laundering import mixtures, pieces
from tiers.fakes import TextTier

from kvtool.cache.block_pool import BlockIds
from kvtool.cache.manager import CacheManager
from kvtool.config import CacheConfig, SchedulerConfig
from kvtool.engine.batch import Batch, StepOutput
from kvtool.engine.engine import Engine
from kvtool.engine.executor import RunRefused
from kvtool.engine.request import Request
from kvtool.tiers.memory import BlockViews
from kvtool.tiers.rates import Rates
from kvtool.tiers.stack import Tiers
from kvtool.tiers.tier import Missing


class ToyMemory:
    """The slots of a toy executor as bytes (a `BlockMemory`)."""

    def __init__(self, executor: ToyExecutor) -> None:
        self._kv = executor.kv
        self.groups = executor.groups
        self.block_size = executor.block_size
        self.layers = tuple((group, 0) for group in range(len(executor.groups)))

    def source(self, block_ids: tuple[BlockIds, ...]) -> BlockViews:
        return ToyViews(self._kv, block_ids)

    target = source


class ToyViews:
    def __init__(self, kv: np.ndarray, block_ids: tuple[BlockIds, ...]) -> None:
        self._kv = kv
        self._block_ids = block_ids
        self.num_blocks = len(block_ids[0])

    def block(self, group: int, index: int) -> memoryview:
        return memoryview(self._kv[group, self._block_ids[group][index]]).cast("B")

    layer = block

    def arrived(self, layer: int) -> None:
        pass


class LoadingExecutor(ToyExecutor):
    """Reads what is to be loaded, and refuses runs at some of the steps that meet new ones."""

    loader: Tiers
    refused_steps: Collection[int] = ()
    num_steps = 0

    def execute(self, batch: Batch) -> StepOutput:
        for load in batch.donor_loads:
            self.loader.start(load).finish()
        found = {s.request.id: s.runs for s in batch.requests if s.runs}
        self.num_steps += bool(found)
        if found and self.num_steps in self.refused_steps:
            raise RunRefused(found)
        for load in batch.loads:
            self.loader.start(load).finish()
        return super().execute(batch)


class UnreliableTier(TextTier):
    """Some of its reads fail, and what was to be read is gone."""

    failing_reads: Collection[int] = ()
    num_reads = 0

    def before_layer(self, layer: int) -> None:
        self.num_reads += layer == 0
        if self.num_reads in self.failing_reads:
            raise Missing("its checksum differs")


def tiered_toy_engine(
    num_blocks: int,
    block_size: int,
    num_groups: int = 2,
    index: str = "radix",
    repair: str = "none",
    min_run: int = 8,
    donor: str = "recent",
    **scheduler: Any,
) -> tuple[Engine, Tiers, UnreliableTier]:
    executor = LoadingExecutor(num_groups, num_blocks, block_size, VOCAB)
    tier = UnreliableTier("disk", executor.groups, block_size)
    executor.loader = tiers = Tiers([tier], ToyMemory(executor), Rates())
    config = CacheConfig(
        num_blocks=num_blocks,
        block_size=block_size,
        prefix_index=index,
        reuse="shift",
        repair=repair,
        min_run=min_run,
        donor=donor,
    )
    manager = CacheManager(executor.groups, config, backing=tiers)
    scheduling = SchedulerConfig(**{"max_model_len": 4096, **scheduler})
    engine = Engine(
        executor, manager, scheduling, check_integrity=True, clock=iter(range(10**9)).__next__
    )
    return engine, tiers, tier


def check_stored(tier: UnreliableTier) -> None:
    """Every stored block holds the KV that its chain has when it is computed alone."""
    for kept in tier.kept.values():
        run, parts = kept.run, [kept.run.tokens]
        while run.home and run.parent in tier.kept:
            run = tier.kept[run.parent].run
            parts.insert(0, run.tokens)
        if run.home:
            continue  # what stood in front was dropped after a read that failed
        tokens = np.concatenate(parts)
        for group, raw in enumerate(kept.kv):
            state, rows = 0, []
            for position, token in enumerate(tokens.tolist()):
                state = fold(state, token, position, group)
                rows.append((token, position, state))
            own = np.frombuffer(raw, dtype=np.int64).reshape(-1, 3)[: len(kept.run.tokens)]
            assert own.tolist() == [list(row) for row in rows[kept.run.home :]]


def play(engine: Engine, mixture: dict[str, Any], between: Callable[[], None]) -> list[Request]:
    """All requests, then the same ones once more in another order; `between` while none runs."""
    done = []
    for prompts in (mixture["prompts"], mixture["prompts"][::-1]):
        requests = [
            toy_request(prompt, reply, shift=shift, namespace=namespace)
            for prompt, reply, shift, namespace, _ in prompts
        ]
        for step in range(10_000):
            for request, (*_, arrival) in zip(requests, prompts):
                if arrival == step:
                    engine.add(request)
            if engine.has_work:
                engine.step()
            elif step > 12:
                break
        between()
        done += requests
    return done


def _alone_and_short() -> dict[str, Any]:
    """A request that is to begin with loaded text finds no room, with nobody beside it."""
    prompts = [
        (pieces([3, 3, 6, 6]), 11, True, b"salt a", 3),
        (pieces([2, 0]), 8, False, b"salt a", 7),
        (pieces([2, 3, 8]), 3, True, b"salt a", 7),
        (pieces([4, 5, 4, 5, 7]), 7, True, b"salt a", 7),
        (pieces([6, 6, 3]), 7, True, b"salt a", 2),
        (pieces([2, 7, 7, 8, 3]), 8, False, b"salt a", 7),
        (pieces([3]), 6, False, b"salt a", 1),
        (pieces([0]), 1, False, b"salt a", 3),
    ]
    return {
        "prompts": prompts,
        "refusals": set(),
        "engine": {
            "block_size": 4,
            "num_blocks": 15,
            "num_groups": 1,
            "min_run": 1,
            "max_num_seqs": 1,
            "max_num_batched_tokens": 3,
            "watermark": 0.0,
        },
    }


@example(mixture=_alone_and_short(), forgets=False, failing_reads={4})
@settings(max_examples=25, deadline=None)
@given(
    mixture=mixtures(),
    forgets=st.booleans(),
    failing_reads=st.sets(st.integers(1, 6), max_size=3),
)
def test_exact_requests_always_get_the_cold_reply(
    mixture: dict[str, Any], forgets: bool, failing_reads: set[int]
) -> None:
    engine, tiers, tier = tiered_toy_engine(**mixture["engine"])
    engine.executor.refused_steps = {step + 1 for step in mixture["refusals"]}
    tier.failing_reads = failing_reads

    def between() -> None:
        assert tiers.flush(10)
        engine.manager.release_ended_transfers()
        assert held_blocks(engine) == 0
        if forgets:
            engine.manager.clear()
        check_stored(tier)

    for request in play(engine, mixture, between):
        usage = request.usage
        assert request.is_finished and usage.completion_tokens > 0
        assert usage.cached_tokens + usage.shifted_tokens < usage.prompt_tokens
        if not request.shift:
            assert usage.shifted_tokens == usage.recomputed_tokens == 0
            assert request.output_ids == expected(request, mixture["engine"]["num_groups"])
    tiers.close()


def test_moved_text_does_come_from_the_tier() -> None:
    """What the property above is about happens."""
    engine, tiers, tier = tiered_toy_engine(num_blocks=40, block_size=4)
    donor, header = [1, 2, 3, 4, 0, 4, 3, 1, 1, 2, 0, 3, 2, 2, 4, 1], [0, 1, 0, 2, 0]
    list(engine.run([toy_request(donor, 1)]))
    assert tiers.flush(10)
    engine.manager.release_ended_transfers()
    engine.manager.clear()
    request = toy_request([*header, *donor[4:], 3], 2)
    list(engine.run([request]))
    assert [(run.start, run.stop, run.origin) for run in request.moved_runs] == [(5, 17, "disk")]
    assert request.usage.shifted_tokens == 12
    check_stored(tier)
