"""Two threads on a machine where another process keeps one core busy: sleeping against spinning."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

ROUNDS = 3
COMMAND = [
    *(sys.executable, "-m", "kvtool", "generate", "Count to one hundred.", "--threads", "2"),
    *("--dtype", "fp32", "--max-tokens", "16", "--ignore-eos", "--format", "json"),
]
# GOMP_SPINCOUNT has the last word on OMP_WAIT_POLICY; 300000 is what libgomp takes without both.
VARIANTS = {"sleep": {}, "spin": {"GOMP_SPINCOUNT": "300000"}}


def run() -> Iterable[dict[str, Any]]:
    for busy in (False, True):
        times: dict[str, list[float]] = {name: [] for name in VARIANTS}
        for _ in range(ROUNDS):
            for name, variables in VARIANTS.items():
                times[name].append(_ms_per_token(variables, busy))
        medians = {name: round(statistics.median(values), 1) for name, values in times.items()}
        ratio = round(medians["sleep"] / medians["spin"], 3)
        yield {"other_process_busy": busy, "tpot_ms": medians, "sleep_to_spin": ratio}


def _ms_per_token(variables: dict[str, str], busy: bool) -> float:
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if busy else None
    try:
        done = subprocess.run(
            COMMAND, env={**os.environ, **variables}, capture_output=True, check=True
        )
    finally:
        if other is not None:
            other.kill()
            other.wait()
    document = json.loads(done.stdout)
    assert document["usage"]["completion_tokens"] == 16
    return float(document["timing"]["tpot_ms"])
