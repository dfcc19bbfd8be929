"""An engine on a tiny random model: real attention, real kernels, exact tokens in fp32."""

from __future__ import annotations

from functools import cache
from typing import Any

import tiny
from paged_run import full_logits

from kvtool.cache.manager import CacheManager
from kvtool.config import CacheConfig, SchedulerConfig
from kvtool.engine.engine import Engine
from kvtool.engine.model_executor import ModelExecutor
from kvtool.engine.request import Request
from kvtool.models.hf import PagedModel


@cache
def paged_model(name: str = "llama") -> PagedModel:
    settings = {"num_hidden_layers": 2} if name == "llama" else {}
    return PagedModel(tiny.build(name, **settings))


def tiny_engine(
    name: str = "llama",
    *,
    num_blocks: int = 64,
    block_size: int = 4,
    index: str = "radix",
    **scheduler: Any,
) -> Engine:
    model = paged_model(name)
    executor = ModelExecutor(model, num_blocks, block_size)
    for pool in model.pools:
        pool.fill_(float("nan"))
    cache_config = CacheConfig(num_blocks=num_blocks, block_size=block_size, prefix_index=index)
    manager = CacheManager(executor.groups, cache_config)
    config = SchedulerConfig(**{"max_model_len": model.max_model_len, **scheduler})
    return Engine(executor, manager, config, check_integrity=True)


def assert_greedy(name: str, request: Request) -> None:
    """Every output token is the likeliest one of the model's own forward without a cache."""
    if request.num_output_tokens:
        logits = full_logits(paged_model(name).model, request.tokens[:-1].tolist())
        rows = logits[request.num_prompt_tokens - 1 :]
        assert rows.argmax(dim=-1).tolist() == request.output_ids
