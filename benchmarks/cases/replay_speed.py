"""Block accesses a CPU second of an accounting replay (serial, no output KV), by pool size.

The trace is the Mooncake conversation trace where KVTOOL_TRACES names a folder that has
mooncake/conversation_trace.jsonl.gz; otherwise one of the same shape that is made up here.
"""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kvtool.config import CacheConfig
from kvtool.replay.replay import Replay
from kvtool.replay.settings import ReplaySettings
from kvtool.traces.prepared import PreparedRequest, Unit
from kvtool.traces.trace_request import LengthPrompt, Place, TraceRequest

UNIT = Unit(tokens_per_symbol=512, block_size=1)
ROUNDS = 3
# Hit blocks of the conversation trace, from an independent LRU implementation.
CONVERSATION = {1000: 0.0445, 10_000: 0.2116, 30_000: 0.3257, 50_000: 0.3546, 100_000: 0.3637}
NAME = "mooncake/conversation_trace.jsonl.gz"


def run() -> Iterable[dict[str, Any]]:
    folder = os.environ.get("KVTOOL_TRACES")
    requests = list(_read(Path(folder) / NAME) if folder else _made_up())
    accesses = sum(len(prepared.symbols) for prepared in requests)
    for capacity, expected in CONVERSATION.items():
        config = ReplaySettings(cache=CacheConfig(num_blocks=capacity, block_size=1), unit=UNIT)
        seconds = []
        for _ in range(ROUNDS):
            replay = Replay(config)
            start_s = time.process_time()
            totals = replay.run(requests).totals
            seconds.append(time.process_time() - start_s)
            assert totals.num_blocks == accesses
            assert not folder or round(totals.block_hit_rate, 4) == expected
        yield {
            "trace": "conversation" if folder else "made up",
            "requests": len(requests),
            "accesses": accesses,
            "capacity_blocks": capacity,
            "block_hit_rate": round(totals.block_hit_rate, 4),
            "evicted_blocks": totals.evicted_blocks,
            "accesses_per_s": round(accesses / min(seconds)),
        }


def _read(path: Path) -> Iterator[PreparedRequest]:
    numbers: dict[int, int] = {}
    with gzip.open(path, "rt") as file:
        for index, line in enumerate(file):
            row = json.loads(line)
            ids = [numbers.setdefault(name, len(numbers)) for name in row["hash_ids"]]
            yield _prepared(index, ids, row["input_length"])


def _made_up() -> Iterator[PreparedRequest]:
    """Conversations that go on: 24 blocks a request, a third of them seen before."""
    dice = np.random.default_rng(0)
    histories: list[list[int]] = [[]]
    used = 0
    for index in range(12_000):
        history = histories[int(dice.integers(len(histories)))]
        count = int(dice.geometric(1 / 16))
        ids = [*history[:100], *range(used, used + count)]
        used += count
        histories.append(ids)
        yield _prepared(index, ids, 512 * len(ids))


def _prepared(index: int, ids: list[int], num_tokens: int) -> PreparedRequest:
    prompt = LengthPrompt(num_tokens)
    return PreparedRequest(
        index=index,
        request=TraceRequest(id=str(index), place=Place("trace", index + 1), prompt=prompt),
        symbols=np.array(ids, dtype=np.int32),
        num_tokens=num_tokens,
        namespace=b"",
        reply=np.empty(0, dtype=np.int32),
        num_output_tokens=0,
    )
