"""Hits of every length in every tier and mixture give the logits that hits in the pool give."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers.fakes import DictTier, Kept
from tiers.tiered_engine import Tiered, logits_of, prompt, tiered_engine

from kvtool.cache.block_keys import BlockKeys

SIZE = 2  # 100 blocks within the 256 positions of the tiny models
LENGTH = 100 * SIZE + 5
NAMES = ("host", "disk", "remote")
EXACT = 1e-4  # fp32, logits of a few units: other shapes of the same matrix products


def engine(staged: bool | None = None) -> Tiered:
    tiers = [partial(DictTier, name) for name in NAMES]
    return tiered_engine(*tiers, num_blocks=128, block_size=SIZE, staged=staged)


@cache
def stored() -> tuple[dict[bytes, Kept], ...]:
    """Every full block of the prompt, in order of position."""
    tiered = tiered_engine(partial(DictTier, "disk"), num_blocks=128, block_size=SIZE)
    tiered.reply(prompt(LENGTH), 1)
    keys = BlockKeys(b"", np.array(prompt(LENGTH), dtype=np.int32), SIZE)
    kept = tiered.tiers.tiers[0].kept
    return tuple({key: kept[key]} for key in keys.span(0, keys.num_full_blocks))


def keep_in_pool(tiered: Tiered, num_blocks: int) -> list[int]:
    """The first blocks of the prompt, computed as the stored ones were: in one forward."""
    tiered.forget_pool()
    if not num_blocks:
        return []
    tiered.reply(prompt(LENGTH), 1)
    tokens = np.array(prompt(LENGTH), dtype=np.int32)
    for group in tiered.engine.manager.groups:
        group._evict(group.pool.num_unreferenced - num_blocks)
        blocks = group.match(tokens, b"").block_ids
    assert len(blocks) == num_blocks
    return blocks


@cache
def reference(num_blocks: int) -> np.ndarray:
    """Logits after a hit in the pool."""
    tiered = tiered_engine(num_blocks=128, block_size=SIZE)
    keep_in_pool(tiered, num_blocks)
    request = tiered.reply(prompt(LENGTH), 3)
    assert request.num_cached_tokens == num_blocks * SIZE
    return logits_of(request)


def check(tiered: Tiered, num_device: int, places: list[str]) -> None:
    """num_device: full blocks in the pool. places: the tiers of the blocks behind them."""
    blocks = keep_in_pool(tiered, num_device)
    for tier in tiered.tiers.tiers:
        tier.kept = {}
        for block, place in zip(stored()[num_device:], places):
            if place == tier.name:
                tier.kept.update(block)
    before = tiered.pool_bytes(blocks)
    request = tiered.reply(prompt(LENGTH), 3)
    assert tiered.pool_bytes(blocks) == before, "valid blocks were written to"
    hit = num_device + len(places)
    assert request.num_cached_tokens == hit * SIZE
    by_tier = {"device": num_device * SIZE} | {n: places.count(n) * SIZE for n in NAMES}
    assert request.cached_by_tier == {name: count for name, count in by_tier.items() if count}
    assert np.array_equal(logits_of(request), reference(hit))
    assert np.abs(logits_of(request) - reference(0)).max() < EXACT


@pytest.mark.parametrize("first", range(3))
def test_every_length(first: int) -> None:
    """One tier each, in turns."""
    tiered = engine()
    for length in range(first, 101, 3):
        check(tiered, 0, [NAMES[length % 4 % 3]] * length)


@settings(max_examples=12, deadline=None)
@given(
    num_device=st.sampled_from([0, 0, 1, 2, 15, 16, 17, 50, 99]),
    stretches=st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from([1, 2, 3, 16, 17, 33])), max_size=6
    ),
    staged=st.booleans(),
)
def test_mixtures(num_device: int, stretches: list[tuple[str, int]], staged: bool) -> None:
    places = [name for name, length in stretches for _ in range(length)]
    check(engine(staged), num_device, places[: 100 - num_device])


@pytest.mark.report("S53")
@pytest.mark.parametrize("length", [1, 3, 4, 5, 7, 8, 9, 16, 33])
def test_exactly_the_computed_tokens_come_back(length: int) -> None:
    tiered = tiered_engine(partial(DictTier, "disk"))
    tiered.reply(prompt(length), 1)
    tiered.forget_pool()
    longer = [*prompt(length), *prompt(3, seed=9)]
    warm = tiered.reply(longer)
    assert warm.cached_by_tier == {"disk": length}
    cold = tiered_engine().reply(longer)
    assert warm.output_ids == cold.output_ids
    assert np.abs(logits_of(warm) - logits_of(cold)).max() < EXACT


@pytest.mark.parametrize("common", [0, 1, 3, 4, 5, 6, 7, 8, 9, 30])
@pytest.mark.parametrize("index", ["radix", "chain"])
def test_a_prompt_that_leaves_a_stored_block_in_the_middle(common: int, index: str) -> None:
    tiered = tiered_engine(partial(DictTier, "disk"), index=index)
    tiered.reply(prompt(31), 1)
    tiered.forget_pool()
    other = [*prompt(31)[:common], *[2 for _ in range(12)]]
    warm = tiered.reply(other)
    assert warm.num_cached_tokens == (common if index == "radix" else common // 4 * 4)
    cold = tiered_engine().reply(other)
    assert np.abs(logits_of(warm) - logits_of(cold)).max() < EXACT


def test_the_longer_of_two_partial_hits_is_taken() -> None:
    tiered = tiered_engine(partial(DictTier, "disk"))
    tiered.reply(prompt(31), 1)
    tiered.forget_pool()
    tiered.reply(prompt(26), 1)
    assert tiered.reply(prompt(31)).cached_by_tier == {"device": 24, "disk": 6}
    assert tiered.reply(prompt(31)).cached_by_tier == {"device": 30}


@pytest.mark.report("S34")
@pytest.mark.parametrize("name", ["deepseek_v3", "gemma3_text", "gemma2"])
def test_latents_and_several_groups(name: str) -> None:
    tiered = tiered_engine(partial(DictTier, "disk"), name=name, block_size=8)
    tiered.reply(prompt(37), 1)
    tiered.forget_pool()
    warm = tiered.reply([*prompt(37), 5, 6])
    assert warm.cached_by_tier == {"disk": 37}
    cold = tiered_engine(name=name, block_size=8).reply([*prompt(37), 5, 6])
    assert warm.output_ids == cold.output_ids
    assert np.abs(logits_of(warm) - logits_of(cold)).max() < 1e-3
