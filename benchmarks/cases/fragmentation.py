"""Internal fragmentation of the block pool for request lengths log-uniform in 64 … 2048."""

from __future__ import annotations

import random
from collections.abc import Iterable
from math import exp, log
from typing import Any

from kvtool.cache.group import GroupSpec
from kvtool.cache.manager import CacheManager
from kvtool.config import CacheConfig, SchedulerConfig
from kvtool.engine.engine import Engine
from kvtool.engine.request import Request
from kvtool.engine.sampling import SamplingParams
from kvtool.engine.simulated import SimulatedExecutor

REQUESTS = 500
SHORTEST, LONGEST = 64, 2048


def run() -> Iterable[dict[str, Any]]:
    for block_size in (1, 16, 32, 64):
        yield {
            "requests": REQUESTS,
            "lengths": f"log-uniform {SHORTEST}…{LONGEST}",
            "block_size": block_size,
            "internal_fragmentation": round(_fragmentation(block_size), 4),
        }


def _fragmentation(block_size: int) -> float:
    groups = (GroupSpec(layers=(0,), kind="kv", num_kv_heads=1, head_dim=1, dtype="float32"),)
    blocks = 32 * LONGEST // block_size
    manager = CacheManager(groups, CacheConfig(num_blocks=blocks, block_size=block_size))
    scheduler = SchedulerConfig(max_model_len=2 * LONGEST)
    engine = Engine(SimulatedExecutor(groups, vocab_size=1000), manager, scheduler)
    dice = random.Random(0)
    lengths = [int(exp(dice.uniform(log(SHORTEST), log(LONGEST)))) for _ in range(REQUESTS)]
    requests = [
        Request([number, *([7] * (length - 1))], SamplingParams(max_tokens=1))
        for number, length in enumerate(lengths)
    ]
    assert sum(1 for _ in engine.run(requests)) == REQUESTS
    assert engine.metrics.fragmentation is not None
    return engine.metrics.fragmentation
