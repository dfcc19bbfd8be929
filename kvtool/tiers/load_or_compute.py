"""Is stored KV worth loading? Pure functions over measured rates."""

from __future__ import annotations

from collections.abc import Sequence


def seconds_saved(
    num_tokens: float, num_bytes: int, load_rate: float | None, compute_rate: float | None
) -> float:
    """Time to compute a block less the time to load it (bytes/s, tokens/s).

    What was never measured costs nothing to load and something to compute: it is tried.
    """
    if load_rate is None or compute_rate is None:
        return num_tokens
    return num_tokens / compute_rate - num_bytes / load_rate


def best_cut(saved: Sequence[float]) -> int:
    """How many leading blocks to load. A block in the middle cannot be left out: what is behind
    it would have to be computed first. Of equal cuts the longest."""
    best = total = 0.0
    cut = 0
    for count, seconds in enumerate(saved, 1):
        total += seconds
        if total >= best and total > 0:
            best, cut = total, count
    return cut
