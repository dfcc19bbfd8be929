"""An engine on a tiny random model with tiers below its pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from engine.tiny_engine import paged_model
from engine.toy_engine import toy_request

from kvtool.cache.manager import CacheManager
from kvtool.config import CacheConfig, SchedulerConfig
from kvtool.engine.engine import Engine
from kvtool.engine.model_executor import ModelExecutor
from kvtool.engine.request import Request
from kvtool.models.hf import PagedModel
from kvtool.models.pool_memory import PoolMemory
from kvtool.tiers.rates import Rates
from kvtool.tiers.stack import Tiers
from kvtool.tiers.tier import Tier


class Tiered(NamedTuple):
    engine: Engine
    tiers: Tiers
    model: PagedModel

    def run(self, *requests: Request) -> None:
        list(self.engine.run(requests))

    def reply(self, prompt: Sequence[int], max_tokens: int = 4, **options: Any) -> Request:
        """One request to its end, with its logits; all it leaves is written below."""
        request = toy_request(prompt, max_tokens, keep_logits=True, **options)
        self.run(request)
        assert self.tiers.flush(10)
        self.engine.manager.release_ended_transfers()
        return request

    def forget_pool(self) -> None:
        """Nothing is left on the device: every block is empty, every slot NaN."""
        self.tiers.flush()
        self.engine.manager.clear()
        for pool in self.model.pools:
            pool.fill_(float("nan"))

    def pool_bytes(self, blocks: Sequence[int]) -> list[bytes]:
        memory = PoolMemory(self.model, self.engine.manager.config.block_size)
        ids = tuple(np.array(blocks, dtype=np.int64) for _ in self.model.groups)
        views = memory.source(ids)
        return [bytes(views.block(g, i)) for g in range(len(ids)) for i in range(len(blocks))]


MakeTier = Callable[[tuple[Any, ...], int], Tier]


def tiered_engine(
    *make_tiers: MakeTier,
    name: str = "llama",
    num_blocks: int = 64,
    block_size: int = 4,
    index: str = "radix",
    rates: Rates | None = None,
    events: Any = None,
    staged: bool | None = None,
    **scheduler: Any,
) -> Tiered:
    """make_tiers: called with the groups and the block size, fastest first."""
    model = paged_model(name)
    memory = PoolMemory(model, block_size, staged=staged)
    tiers = Tiers(
        [make(model.groups, block_size) for make in make_tiers],
        memory,
        rates or Rates(),
        events=events,
    )
    cache = CacheConfig(num_blocks=num_blocks, block_size=block_size, prefix_index=index)
    manager = CacheManager(model.groups, cache, events=events, backing=tiers)
    executor = ModelExecutor(model, num_blocks, block_size, loader=tiers)
    for pool in model.pools:
        pool.fill_(float("nan"))
    config = SchedulerConfig(**{"max_model_len": model.max_model_len, **scheduler})
    return Tiered(Engine(executor, manager, config, check_integrity=True), tiers, model)


def prompt(length: int, seed: int = 0) -> list[int]:
    ids: list[int] = np.random.default_rng(seed).integers(3, 128, length).tolist()
    return ids


def logits_of(request: Request) -> np.ndarray:
    return np.stack([sampled.logits for sampled in request.samples])
