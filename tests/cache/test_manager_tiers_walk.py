"""CacheManager over tiers against the plain model: copies end in any order, loads fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cache.fake_backing import FakeBacking, finish_when_waited_for
from cache.kv_model import Live, Model
from cache.walks import GROUP, make_manager, new_tokens
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.cache.index import INDEXES
from kvtool.cache.manager import CacheManager, Tokens


class TieredModel(Model):
    """Also: what is loaded is what was computed for these tokens, and late loads harm nobody."""

    def __init__(self, manager: CacheManager, block_size: int, backing: FakeBacking) -> None:
        super().__init__(manager, block_size)
        self.backing = backing
        self.late: list[Any] = []  # loads of steps that were given up; still writing
        backing.memory = self.memory

    def start(self, tokens: Tokens, namespace: bytes, align: int) -> None:
        kv = self.manager.begin(tokens, namespace, align=align)
        device = kv.num_cached
        self.manager.extend_hit(kv, align=align)
        assert kv.num_cached >= device
        if align > 1:
            assert kv.num_cached % align == 0 and (kv.num_cached < len(tokens) or not len(tokens))
        self.live.append(Live(tokens, kv, kv.num_tokens))

    def step(self, request: Live, end: int, outcome: str) -> None:
        """outcome: done | failed (a load ended, badly) | late (it goes on after the step)."""
        kv = request.kv
        loads = bool(kv.stored)
        copies = self.manager.allocate(kv, max(end, kv.num_cached))
        if copies is None:
            assert not self.backing.saves and not self.late, "copies were not waited for"
            return
        self.copy(copies)
        if loads and outcome != "done":
            load = kv.load
            assert load is not None and load.claim()
            self.late.append(load)
            finish_when_waited_for(load, lambda: self.end_late(load))
            if outcome == "failed":
                self.end_late(load)
            self.finish(request, 0)
            return
        if loads:
            assert kv.load is not None and kv.load.claim()
            self.backing.load(kv.load)
            kv.load.end()
            request.computed = kv.num_cached
        self.compute(request, max(end, kv.num_cached))
        self.manager.commit(kv, request.tokens[: request.computed])

    def end_late(self, load: Any) -> None:
        """Poison in the blocks of a load nobody waits for any more."""
        self.late.remove(load)
        for group, ids in enumerate(load.block_ids):
            for block in ids.tolist():
                for offset in range(self.block_size):
                    self.memory[group][block * self.block_size + offset] = "poison"
        load.end()


@pytest.mark.report("S26", "S27", "S31", "S44", "S52")
@pytest.mark.parametrize("prefix_index", INDEXES)
@pytest.mark.parametrize("block_size", [1, 4, 16])
@pytest.mark.parametrize("num_groups", [1, 2])
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_random_walk(prefix_index: str, block_size: int, num_groups: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    backing = FakeBacking(block_size)
    manager = make_manager(
        int(rng.integers(5, 14)),
        block_size,
        groups=(GROUP,) * num_groups,
        backing=backing,
        prefix_index=prefix_index,
    )
    model = TieredModel(manager, block_size, backing)
    history: list[Tokens] = []
    for _ in range(50):
        walk_step(model, rng, history)
        model.check()
    for request in list(model.live):
        model.finish(request, request.computed)
        model.check()
    backing.finish_all()
    for load in list(model.late):
        model.end_late(load)
    manager.release_ended_transfers()
    assert manager.num_available_blocks == manager.num_blocks


def walk_step(model: TieredModel, rng: np.random.Generator, history: list[Tokens]) -> None:
    choice = rng.random()
    if rng.random() < 0.1:
        group = model.manager.groups[-1]
        group._evict(int(rng.integers(group.pool.num_unreferenced + 1)))
    if rng.random() < 0.3 and model.backing.saves:
        model.backing.finish(model.backing.saves[int(rng.integers(len(model.backing.saves)))][0])
    if rng.random() < 0.1 and model.late:
        model.end_late(model.late[int(rng.integers(len(model.late)))])
    if rng.random() < 0.1:
        model.manager.release_ended_transfers()
    if choice < 0.35 or not model.live:
        tokens = new_tokens(rng, history, model.block_size)
        history.append(tokens)
        namespace = [b"", b"tenant"][int(rng.random() < 0.2)]
        model.start(tokens, namespace, 1 if rng.random() < 0.9 else 2 * model.block_size)
        return
    request = model.live[int(rng.integers(len(model.live)))]
    if choice < 0.8 and request.kv.num_tokens < len(request.tokens):
        end = int(rng.integers(request.kv.num_tokens + 1, len(request.tokens) + 1))
        model.step(request, end, str(rng.choice(["done", "done", "done", "failed", "late"])))
    elif choice < 0.95:
        model.finish(request, request.computed)
    else:
        model.finish(request, int(rng.integers(0, request.computed + 1)))
