"""Times come from the engine's clock, waste from what the batches held."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from engine.toy_engine import run, toy_engine, toy_request

from kvtool.engine.metrics import Timing
from kvtool.engine.simulated import SimulatedExecutor


def test_times_in_milliseconds() -> None:
    timing = Timing(arrival_s=10.0)
    assert (timing.ttft_ms, timing.tpot_ms, timing.total_ms) == (None, None, None)
    timing.token(10.5)
    assert (timing.ttft_ms, timing.tpot_ms, timing.total_ms) == (500.0, None, 500.0)
    timing.token(10.6)
    timing.token(10.75)
    assert timing.ttft_ms == 500.0 and timing.total_ms == 750.0
    assert timing.tpot_ms == pytest.approx(125.0)


def test_engine_counts() -> None:
    engine = toy_engine(max_num_batched_tokens=6)  # its clock ticks once a reading
    first, second = toy_request([0, 1, 2, 3, 4, 0, 1], 2), toy_request([2, 2, 2], 3)
    run(engine, first, second)
    # steps: 6 of the first | its 7th and 3 of the second | decodes | one decode
    metrics = engine.metrics
    assert (metrics.steps, metrics.scheduled_tokens, metrics.max_batch_tokens) == (4, 13, 6)
    assert (metrics.max_batch_requests, metrics.scheduled_requests) == (2, 6)
    assert metrics.peak_blocks == 3
    assert (metrics.used_slots, metrics.allocated_slots) == (6 + 10 + 12 + 5, 8 + 12 + 12 + 8)
    assert first.timing.ttft_ms == 3000.0 and first.timing.tpot_ms == 1000.0
    assert second.timing.ttft_ms == 2000.0 and second.timing.total_ms == 4000.0


def test_internal_fragmentation_is_below_four_percent(capsys) -> None:
    """Lengths log-uniform in 64…2048, blocks of 16 tokens."""
    lengths = np.exp(np.random.default_rng(0).uniform(np.log(64), np.log(2048), 200)).astype(int)
    engine = toy_engine(num_blocks=4000, block_size=16, max_num_batched_tokens=8192)
    engine.executor = SimulatedExecutor(engine.executor.groups, vocab_size=1000)
    engine._check_integrity = False
    run(engine, *(toy_request(np.arange(n) + 3000 * i, 4) for i, n in enumerate(lengths)))
    with capsys.disabled():
        print(f"\ninternal fragmentation: {engine.metrics.fragmentation:.2%}")
    assert 0.0 < engine.metrics.fragmentation < 0.04


def test_control_plane_runs_without_torch() -> None:
    code = "import sys; sys.modules['torch'] = None; import kvtool.cache, kvtool.engine.scheduler"
    more = "import kvtool.engine.engine, kvtool.engine.simulated, kvtool.engine.stream, kvtool.engine.verify"
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", f"{code}; {more}"], cwd=root, check=True)
