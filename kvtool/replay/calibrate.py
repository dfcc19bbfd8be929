"""`calibrate`: the cost model of a real engine, measured on it."""

from __future__ import annotations

import time
from statistics import median

import numpy as np

from kvtool.engine.engine import Engine
from kvtool.engine.request import Request
from kvtool.engine.sampling import SamplingParams
from kvtool.errors import ConfigError
from kvtool.replay.cost import CostModel

LONG_PROMPT = 1024  # tokens; the short one is a quarter
REPLY = 32
ROUNDS = 3
_SHORTEST = 16


def calibrate(engine: Engine, vocab_size: int) -> CostModel:
    """Two prompt lengths give the linear and the quadratic part of a prefill, a short reply the
    decode rate. Nothing is read from the cache or left in it.

    Raises `ConfigError` where context or pool are too small to measure anything.
    """
    manager, scheduler = engine.manager, engine.scheduler.config
    slots = manager.num_blocks * manager.config.block_size
    long = min(LONG_PROMPT, scheduler.max_model_len - REPLY, slots - REPLY)
    short = long // 4
    if short < _SHORTEST:
        raise ConfigError(
            f"--calibrate needs room for {4 * _SHORTEST + REPLY} tokens; context and cache hold "
            f"{min(scheduler.max_model_len, slots)}.",
            hint="Give --prefill-rate and --decode-rate instead, or a larger cache.",
        )
    prompt = np.random.default_rng(0).integers(0, vocab_size, long, dtype=np.int32)
    _run(engine, prompt[:short], 2)  # what is only done once
    rounds = [(_run(engine, prompt[:short], REPLY), _run(engine, prompt, 1)) for _ in range(ROUNDS)]
    short_s = median(first for (first, _), _ in rounds) / short
    long_s = median(first for _, (first, _) in rounds) / long
    decode_s = median(rest for (_, rest), _ in rounds) / (REPLY - 1)
    attention = max(0.0, 2 * (long_s - short_s) / (long - short))
    linear = short_s - attention * short / 2
    if linear <= 0:
        linear, attention = long_s, 0.0
    return CostModel(prefill_rate=1 / linear, decode_rate=1 / decode_s, attention=attention)


def _run(
    engine: Engine, prompt: np.ndarray[tuple[int], np.dtype[np.int32]], reply: int
) -> tuple[float, float]:
    """Seconds to the first token and from there to the last."""
    request = Request(prompt, SamplingParams(max_tokens=reply, ignore_eos=True), reuse=False)
    start_s = time.perf_counter()
    first_s = start_s
    engine.add(request)
    while not request.is_finished:
        engine.step()
        if request.error is not None:
            raise request.error
        if request.num_output_tokens <= 1:
            first_s = time.perf_counter()
    return first_s - start_s, time.perf_counter() - first_s
