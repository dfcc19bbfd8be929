"""Alternate timing of variants in one process: medians and ratios that a shared machine cannot skew."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def interleaved_ms(variants: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median milliseconds of each variant; one untimed round first."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    for timed in [False] + [True] * rounds:
        for name, run in variants.items():
            start = time.perf_counter()
            run()
            if timed:
                times[name].append(1000 * (time.perf_counter() - start))
    return {name: round(statistics.median(values), 2) for name, values in times.items()}
