"""CacheManager against a plain model: no pool, no index, only which tokens a block holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cache.kv_model import Model
from cache.walks import GROUP, make_manager, new_tokens
from cache.weak_indexes import WEAK
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.cache.eviction import POLICIES
from kvtool.cache.group_cache import IndexFactory
from kvtool.cache.index import INDEXES
from kvtool.cache.manager import Tokens


@pytest.mark.report("S25", "S26", "S27", "S31")
@pytest.mark.parametrize("prefix_index", INDEXES)
@pytest.mark.parametrize("block_size", [1, 4, 16])
@pytest.mark.parametrize("num_groups", [1, 2])
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32 - 1), evict=st.sampled_from(list(POLICIES)))
def test_random_walk(
    prefix_index: str, block_size: int, num_groups: int, seed: int, evict: str
) -> None:
    walk(seed, block_size, num_groups, prefix_index=prefix_index, evict=evict)


@pytest.mark.report("S66")
@pytest.mark.parametrize("index", WEAK.values(), ids=WEAK)
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32 - 1))
def test_random_walk_with_colliding_keys(index: IndexFactory, seed: int) -> None:
    walk(seed, block_size=4, num_groups=1, index=index)


def walk(seed: int, block_size: int, num_groups: int, **options: Any) -> None:
    rng = np.random.default_rng(seed)
    manager = make_manager(
        int(rng.integers(3, 12)),
        block_size,
        groups=(GROUP,) * num_groups,
        **options,
    )
    model = Model(manager, block_size)
    history: list[Tokens] = []
    for _ in range(40):
        step(model, rng, history)
        model.check()
    for request in list(model.live):
        model.finish(request, request.computed)
        model.check()
    assert manager.num_available_blocks == manager.num_blocks


def step(model: Model, rng: np.random.Generator, history: list[Tokens]) -> None:
    choice = rng.random()
    if rng.random() < 0.05:  # groups need not hold the same prefixes
        group = model.manager.groups[-1]
        group._evict(int(rng.integers(group.pool.num_unreferenced + 1)))
    if choice < 0.35 or not model.live:
        tokens = new_tokens(rng, history, model.block_size)
        history.append(tokens)
        namespace = [b"", b"tenant"][int(rng.random() < 0.2)]
        align = 1 if rng.random() < 0.9 else 2 * model.block_size
        model.begin(tokens, namespace, align)
        return
    request = model.live[int(rng.integers(len(model.live)))]
    if choice < 0.8 and request.kv.num_tokens < len(request.tokens):
        end = int(rng.integers(request.kv.num_tokens + 1, len(request.tokens) + 1))
        model.allocate(request, end)
    elif choice < 0.95:
        model.finish(request, request.computed)
    else:
        model.finish(request, int(rng.integers(0, request.computed + 1)))
