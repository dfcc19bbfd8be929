"""An engine on a toy executor, small enough for every corner to be met."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.toy_executor import ToyExecutor, expected_reply

from kvtool.cache.manager import CacheManager
from kvtool.config import CacheConfig, SchedulerConfig
from kvtool.engine.engine import Engine
from kvtool.engine.request import Request
from kvtool.engine.sampling import SamplingParams

VOCAB = 5


def toy_engine(
    *,
    num_blocks: int = 64,
    block_size: int = 4,
    num_groups: int = 1,
    index: str = "radix",
    cache: dict[str, Any] | None = None,
    **scheduler: Any,
) -> Engine:
    cache_config = CacheConfig(
        num_blocks=num_blocks, block_size=block_size, prefix_index=index, **(cache or {})
    )
    executor = ToyExecutor(num_groups, num_blocks, block_size, VOCAB)
    manager = CacheManager(executor.groups, cache_config)
    config = SchedulerConfig(**{"max_model_len": 4096, **scheduler})
    return Engine(
        executor, manager, config, check_integrity=True, clock=iter(range(10**9)).__next__
    )


def toy_request(prompt: Sequence[int], max_tokens: int = 4, **kwargs: Any) -> Request:
    return Request(prompt, SamplingParams(max_tokens=max_tokens), **kwargs)


def expected(request: Request, num_groups: int = 1) -> list[int]:
    prompt = request.prompt_ids.tolist()
    return expected_reply(prompt, request.sampling.max_tokens, num_groups, VOCAB)


def run(engine: Engine, *requests: Request) -> list[Request]:
    """All at once, to the end; returns them in order of completion."""
    return list(engine.run(requests))


def held_blocks(engine: Engine) -> int:
    return engine.manager.num_blocks - engine.manager.num_available_blocks
