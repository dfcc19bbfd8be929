"""What it takes to find moved text and to plan its use, against the prefill that this saves."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kvtool.cache.block_pool import Tokens
from kvtool.cache.group import GroupSpec
from kvtool.cache.manager import CacheManager
from kvtool.config import CacheConfig, EngineConfig
from kvtool.engine.request import Request
from kvtool.engine.sampling import SamplingParams
from kvtool.runtime import Runtime

BLOCK_SIZE = 16
HEAD = 37  # tokens in front of the text at its new place; at the old one there are twice as many
ROUNDS = 7
SHARE_ALLOWED = 0.02
PREFILLED = (2000, 8000)  # tokens that the demo model computes, to compare with
GROUP = GroupSpec(layers=(0,), kind="kv", num_kv_heads=1, head_dim=16, dtype="float32")


def run() -> Iterable[dict[str, Any]]:
    rng = np.random.default_rng(5)
    prefill_s = _prefill_seconds(rng)
    for length in (*PREFILLED, 32_000, 128_000):
        moved = rng.integers(0, 40_000, length - HEAD - 1).astype(np.int32)
        yield _row("moved text", moved, [2 * HEAD], prefill_s)
    yield _row("one repeated token", np.full(16_000, 7, dtype=np.int32), [2 * HEAD], {})
    boilerplate = rng.integers(0, 40_000, 64).astype(np.int32)
    yield _row("10,000 donors", boilerplate, [1 + i % 16 for i in range(10_000)], {})


def _row(
    text: str, moved: Tokens, heads: Sequence[int], prefill_s: dict[int, float]
) -> dict[str, Any]:
    manager = _manager(moved, heads)
    prompt = np.concatenate([_unique(HEAD, 0), moved, _unique(1, HEAD)])
    seconds = []
    for _ in range(ROUNDS):
        start_s = time.perf_counter()
        kv = manager.begin(prompt, counted=False)
        manager.plan_shift(kv, prompt)
        seconds.append(time.perf_counter() - start_s)
        shift, computed = kv.shift, len(prompt)
        if shift is not None:
            computed = len(shift.rows)
        manager.free(kv, prompt[:0])
    row = {
        "text": text,
        "donors": len(heads),
        "prompt_tokens": len(prompt),
        "computed_tokens": computed,
        "plan_ms": round(1000 * float(np.median(seconds)), 2),
        "us_a_token": round(1e6 * float(np.median(seconds)) / len(prompt), 3),
    }
    if len(prompt) in prefill_s:
        saved_s = prefill_s[len(prompt)] * (1 - computed / len(prompt))
        row["saved_prefill_ms"] = round(1000 * saved_s)
        row["share_of_saved"] = round(float(np.median(seconds)) / saved_s, 5)
        row["share_allowed"] = SHARE_ALLOWED
    return row


def _manager(moved: Tokens, heads: Sequence[int]) -> CacheManager:
    """One that has the text behind heads of these lengths."""
    blocks = sum(-(-(head + len(moved)) // BLOCK_SIZE) + 1 for head in heads)
    config = CacheConfig(num_blocks=blocks, block_size=BLOCK_SIZE, reuse="shift", min_run=48)
    manager = CacheManager((GROUP,), config)
    for index, head in enumerate(heads):
        tokens = np.concatenate([_unique(head, 1000 + 100 * index), moved])
        kv = manager.begin(tokens)
        assert manager.allocate(kv, len(tokens)) is not None
        manager.free(kv, tokens)
    return manager


def _unique(count: int, first: int) -> Tokens:
    """Ids that stand nowhere else."""
    return np.arange(1_000_000 + first, 1_000_000 + first + count, dtype=np.int32)


def _prefill_seconds(rng: np.random.Generator) -> dict[int, float]:
    """Of the demo model, by prompt length; once each, after a warm-up."""
    config = EngineConfig(dtype="float32", max_model_len=8192, no_cache_dir=True, reuse="none")
    runtime = Runtime.open(config)
    found = {}
    for length in (256, *PREFILLED):
        prompt = rng.integers(1000, runtime.vocab_size - 1000, length).tolist()
        start_s = time.perf_counter()
        for _ in runtime.engine.run([Request(prompt, SamplingParams(max_tokens=1))]):
            pass
        found[length] = time.perf_counter() - start_s
    runtime.close()
    return found
