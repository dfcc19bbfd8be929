"""The time of a replay, in seconds since its start."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """`skip_to`: nothing happens until then."""

    @property
    def now_s(self) -> float: ...

    def skip_to(self, when_s: float) -> None: ...


class VirtualClock:
    """Stands still unless it is told to go on."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def advance(self, seconds: float) -> None:
        self.now_s += seconds

    def skip_to(self, when_s: float) -> None:
        self.now_s = max(self.now_s, when_s)


class WorkClock:
    """Goes on by itself, but waits for nothing: idle time is skipped."""

    def __init__(self) -> None:
        self._origin_s = time.perf_counter()

    @property
    def now_s(self) -> float:
        return time.perf_counter() - self._origin_s

    def skip_to(self, when_s: float) -> None:
        self._origin_s -= max(0.0, when_s - self.now_s)
