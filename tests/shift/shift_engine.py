"""An engine on a tiny model that reuses text at other positions, and what it is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import tiny
import torch
from engine.toy_engine import toy_request

from kvtool.cache.manager import CacheManager
from kvtool.config import CacheConfig, SchedulerConfig
from kvtool.engine.batch import Batch, ScheduledRequest, StepOutput
from kvtool.engine.engine import Engine
from kvtool.engine.model_executor import ModelExecutor
from kvtool.engine.request import Request
from kvtool.models.hf import PagedModel
from kvtool.models.moving import move_keys
from kvtool.models.shift_check import prepare_shift

SPARE_BLOCKS = 64  # that the cache does not know of


@cache
def movable(name: str, max_len: int = 256, scheme: str = "rotate") -> PagedModel:
    settings: dict[str, Any] = {"num_hidden_layers": 2} if name == "llama" else {}
    if max_len != 256:
        settings["max_position_embeddings"] = max_len
    model = PagedModel(tiny.build(name, **settings))
    prepare_shift(model, scheme)
    return model


def shift_engine(
    model: PagedModel,
    *,
    num_blocks: int = 192,
    block_size: int = 4,
    executor: type[ModelExecutor] = ModelExecutor,
    cache: dict[str, Any] | None = None,
    **scheduler: Any,
) -> Engine:
    """Pools are full of NaN at the beginning."""
    assert model.layout is not None
    settings = {
        "reuse": "shift",
        "repair": "none",
        "min_run": 8,
        "delta_multiple": model.layout.delta_multiple,
        **(cache or {}),
    }
    carried_out = executor(model, num_blocks + SPARE_BLOCKS, block_size)
    for pool in model.pools:
        pool.fill_(float("nan"))
    config = CacheConfig(num_blocks=num_blocks, block_size=block_size, **settings)
    manager = CacheManager(model.groups, config)
    scheduling = SchedulerConfig(**{"max_model_len": model.max_model_len, **scheduler})
    return Engine(carried_out, manager, scheduling, check_integrity=True)


def reply(engine: Engine, prompt: Sequence[int], max_tokens: int = 3, **options: Any) -> Request:
    request = toy_request(prompt, max_tokens, keep_logits=True, **options)
    list(engine.run([request]))
    return request


def logits_of(request: Request) -> np.ndarray:
    return np.stack([sampled.logits for sampled in request.samples])


def text(length: int, seed: int) -> list[int]:
    """Tokens 3 and up: no special ones."""
    ids: list[int] = np.random.default_rng(seed).integers(3, 120, length).tolist()
    return ids


class CopyingExecutor(ModelExecutor):
    """The oracle: moved KV is copied by `rope_shift`, so that attention meets no delta."""

    def execute(self, batch: Batch) -> StepOutput:
        self._check_runs(batch.scheduled)
        requests = tuple(replace(self._copied(s), runs=()) for s in batch.requests)
        return super().execute(replace(batch, requests=requests))

    def _copied(self, scheduled: ScheduledRequest) -> ScheduledRequest:
        entries = tuple(rows.copy() for rows in scheduled.entries)
        for group, rows in enumerate(entries):
            spare = len(self.model.pools[group]) - SPARE_BLOCKS
            for i in np.flatnonzero(rows[:, 4]).tolist():
                block, offset, _, length, delta = rows[i].tolist()
                offsets = torch.arange(offset, offset + length)
                source, target = (b * self._block_size + offsets for b in (block, spare))
                move_keys(self.model, group, source, target, torch.full_like(source, delta))
                rows[i, 0], rows[i, 4] = spare, 0
                spare += 1
        return replace(scheduled, entries=entries)
