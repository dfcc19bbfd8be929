"""Loads that several requests want, that find no memory, or that fail twice over."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from engine.toy_engine import toy_request
from tiers.fakes import DictTier, FailingTier
from tiers.tiered_engine import prompt, tiered_engine

from kvtool.cache.block_keys import BlockKeys
from kvtool.tiers.host import HostTier


def disk(tier: type[DictTier] = DictTier) -> Any:
    return partial(tier, "disk")


@pytest.mark.report("S48")
def test_no_memory_to_load_into_leaves_no_block_behind() -> None:
    tiered = tiered_engine(partial(HostTier, 1 << 22), disk())
    cold = tiered.reply(prompt(30))
    tiered.forget_pool()
    tiered.tiers.tiers[0].remove(BlockKeys(b"", np.array(prompt(30), np.int32), 4).span(4, 8))
    memory = tiered.tiers._reader._memory
    target, calls = memory.target, []

    def no_memory_for_the_second(block_ids: Any) -> Any:
        calls.append(block_ids)
        if len(calls) == 2:
            raise MemoryError
        return target(block_ids)

    memory.target = no_memory_for_the_second  # type: ignore[method-assign]
    tiered.engine.add(request := toy_request(prompt(30), 4))
    with pytest.raises(MemoryError):
        tiered.engine.step()
    tiered.engine.manager.release_ended_transfers()
    tiered.engine.check_integrity()
    assert tiered.engine.manager.num_available_blocks == 64
    tiered.run()
    assert request.output_ids == cold.output_ids and request.num_cached_tokens == 29


def test_a_tier_that_cannot_even_forget_keeps_nobody_waiting() -> None:
    tiered = tiered_engine(disk(FailingTier))
    cold = tiered.reply(prompt(30))
    tiered.forget_pool()
    tier = tiered.tiers.tiers[0]
    assert isinstance(tier, FailingTier)
    tier.fails_at, tier.error = 0, OSError
    tier.remove = refuse  # type: ignore[method-assign]
    tiered.engine.add(request := toy_request(prompt(30), 4))
    assert tiered.engine.step() == []
    tier.kept.clear()
    tiered.run()
    assert request.output_ids == cold.output_ids and request.num_cached_tokens == 0


def refuse(*args: object) -> Any:
    raise OSError("it cannot be written")


@pytest.mark.report("S32")
@pytest.mark.parametrize("suffix", [0, 1, 9])
@pytest.mark.parametrize("deterministic", [False, True])
def test_requests_that_begin_alike_load_it_once(suffix: int, deterministic: bool) -> None:
    options: dict[str, Any] = {"num_blocks": 200, "deterministic": deterministic}
    if deterministic:
        options |= {"deterministic_chunk": 8, "max_num_batched_tokens": 64}
    tiered = tiered_engine(disk(), **options)
    tiered.reply(prompt(64), 1)
    tiered.forget_pool()
    requests = [toy_request([*prompt(64), *prompt(suffix, seed=9 + i)], 3) for i in range(6)]
    tiered.run(*requests)
    assert tiered.tiers.report()[0]["loaded_blocks"] <= 16
    for request in requests:
        alone = tiered_engine(**options).reply(request.prompt_ids.tolist(), 3)
        assert request.output_ids == alone.output_ids
