"""Block accesses a CPU second of an accounting replay (serial, no output KV), by pool size."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable
from typing import Any

from kvtool.analysis.accesses import Accesses
from kvtool.analysis.lru_curve import lru_curve
from kvtool.config import CacheConfig
from kvtool.errors import ConfigError
from kvtool.replay.replay import Replay
from kvtool.replay.settings import ReplaySettings
from kvtool.traces.open_trace import open_trace
from kvtool.traces.prepare import prepare, unit_of

CAPACITIES = (1_000, 10_000, 30_000, 50_000, 100_000)
ROUNDS = 7


def run(trace: str) -> Iterable[dict[str, Any]]:
    """trace: path of a trace of hash ids. Reading it is not timed. Each pool's hits must be those
    of the LRU curve, which is computed without a cache."""
    opened = open_trace([trace])
    if opened.kind != "blocks":
        raise ConfigError(f"{trace} has no hash ids.")
    unit = unit_of(opened, block_size=16)
    requests = list(prepare(opened, None, unit))
    curve = lru_curve(Accesses.of(requests, unit))
    accesses = sum(len(prepared.symbols) for prepared in requests)
    gc.freeze()  # a replay streams; the requests that wait here are no garbage of its own
    for capacity in CAPACITIES:
        config = CacheConfig(num_blocks=capacity, block_size=unit.block_size)
        seconds = []
        for _ in range(ROUNDS):
            replay = Replay(ReplaySettings(cache=config, unit=unit))
            start_s = time.process_time()
            totals = replay.run(requests).totals
            seconds.append(time.process_time() - start_s)
            assert totals.num_blocks == accesses
            assert totals.hit_blocks == curve.at(capacity)[0]
        yield {
            "requests": len(requests),
            "accesses": accesses,
            "capacity_blocks": capacity,
            "block_hit_rate": round(totals.block_hit_rate, 4),
            "evicted_blocks": totals.evicted_blocks,
            "accesses_per_s": round(accesses / min(seconds)),
        }
