"""What a replay may cost: no torch, memory by the cache and not by the trace, few points."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from replay.prepared_requests import HASH_IDS, prepared

from kvtool.config import CacheConfig
from kvtool.errors import ConfigError
from kvtool.replay.cost import CostModel
from kvtool.replay.distribution import Distribution
from kvtool.replay.replay import Replay
from kvtool.replay.settings import ReplaySettings
from kvtool.traces.prepared import PreparedRequest

ROOT = Path(__file__).parent.parent.parent

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = sys.modules["transformers"] = None
from replay.prepared_requests import HASH_IDS, TEXT, prepared, replay
for unit in (TEXT, HASH_IDS):
    for mode in ("serial", "arrival"):
        for output_kv in (False, True):
            requests = [prepared(i, [1, 2, 3, 4, i], unit=unit, output=9) for i in (5, 6)]
            outcomes, _ = replay(requests, 99, unit=unit, mode=mode, output_kv=output_kv)
            assert outcomes[1].hit_tokens == 4 * unit.tokens_per_symbol, outcomes
import kvtool.replay.calibrate, kvtool.replay.model
"""


def test_without_torch() -> None:
    command = [sys.executable, "-c", WITHOUT_TORCH]
    environment = {"PYTHONPATH": ":".join(str(ROOT / part) for part in (".", "kernels", "tests"))}
    subprocess.run(command, cwd=ROOT, check=True, env=environment)


def endless(count: int) -> Iterator[PreparedRequest]:
    rng = np.random.default_rng(0)
    for index in range(count):
        symbols = rng.integers(0, 2**31 - 1, 8)
        yield prepared(index, symbols, unit=HASH_IDS, output=3, arrival_s=index / 64)


def _replay(mode: str, **settings: Any) -> Replay:
    config = CacheConfig(num_blocks=500, block_size=1)
    return Replay(ReplaySettings(cache=config, unit=HASH_IDS, mode=mode, **settings))


@pytest.mark.parametrize("mode", ["serial", "arrival"])
def test_memory_does_not_grow_with_the_trace(mode: str) -> None:
    peaks = []

    def progress(done: int) -> None:
        if done in (600, 1500):  # all that is bounded is full at the first
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.reset_peak()

    settings = _replay(
        mode, cost=CostModel(prefill_rate=1e9), max_num_batched_tokens=2**20
    ).settings
    tracemalloc.start()
    result = Replay(settings, progress=progress).run(endless(1500), awaited=frozenset())
    tracemalloc.stop()
    assert result.totals.requests == 1500
    assert peaks[1] < 1.15 * peaks[0], peaks


def test_occupancy_is_thinned_out_evenly() -> None:
    result = _replay("serial").run(endless(3000))
    times = [point.t_s for point in result.occupancy]
    assert 256 <= len(times) <= 512 and times == sorted(times)
    gaps = np.diff(times)
    assert gaps.max() < 2 * gaps.min()
    assert {sum(point[1:]) for point in result.occupancy} == {500}
    assert result.occupancy[-1].cached == 500 and result.totals.peak_held_blocks == 8


def test_progress_and_interrupts() -> None:
    seen: list[int] = []

    def progress(done: int) -> None:
        seen.append(done)
        if done == 3:
            raise KeyboardInterrupt

    for mode in ("serial", "arrival"):
        player = _replay(mode)
        player = Replay(player.settings, progress=progress)
        with pytest.raises(KeyboardInterrupt):
            player.run(endless(9))
        player.manager.check_integrity()
        assert player.manager.num_available_blocks == 500
    assert seen == [1, 2, 3] * 2


def test_percentiles_are_within_one_percent() -> None:
    rng = np.random.default_rng(1)
    values = rng.lognormal(0, 3, 2000)
    distribution = Distribution()
    for value in values:
        distribution.add(float(value))
    for percent in (1, 50, 95, 99, 100):
        exact = np.percentile(values, percent, method="inverted_cdf")
        assert distribution.percentile(percent) == pytest.approx(exact, rel=0.01)
    assert distribution.mean == pytest.approx(values.mean())
    assert Distribution().percentile(50) == 0.0


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_rates_are_checked(rate: float) -> None:
    with pytest.raises(ConfigError, match="--prefill-rate is"):
        CostModel(prefill_rate=rate)
    with pytest.raises(ConfigError, match="--decode-rate is"):
        CostModel(decode_rate=rate)


def test_modes_are_checked() -> None:
    with pytest.raises(ConfigError, match="--replay is backwards; allowed: serial, arrival"):
        _replay("backwards")
