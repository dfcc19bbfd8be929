"""Percentiles of any number of times in bounded memory."""

from __future__ import annotations

from math import ceil, log

_WIDTH = 0.01  # of a bucket, relative: what a percentile may be wrong by
_LOG_WIDTH = log(1 + _WIDTH)
_LEAST_S = 1e-6


class Distribution:
    """A histogram with buckets of equal relative width, as in DDSketch."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self._buckets: dict[int, int] = {}

    def add(self, seconds: float) -> None:
        self.count += 1
        self.total += seconds
        bucket = int(log(seconds / _LEAST_S) / _LOG_WIDTH) if seconds > _LEAST_S else 0
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """The least value that this share of all does not exceed; 0 where there are none."""
        wanted = max(1, ceil(self.count * percent / 100))
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                return _LEAST_S * (1 + _WIDTH) ** (bucket + 0.5) if bucket else 0.0
        return 0.0
