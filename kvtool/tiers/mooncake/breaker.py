"""A circuit breaker: what failed is left alone for a while, then tried once (Nygard, *Release It!*).

Closed, every call passes. A failure opens it: no call passes until the pause is over, then one,
the trial. If that fails too, the next pause is twice as long.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Breaker:
    """Every call that was admitted is answered by `succeed` or `fail`."""

    def __init__(
        self, pause_s: float, longest_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._first_pause_s = pause_s
        self._longest_s = longest_s
        self._clock = clock
        self._lock = threading.Lock()
        self._pause_s = pause_s
        self._opened: float | None = None  # None: closed
        self._on_trial = False

    @property
    def pause_s(self) -> float:
        """How long calls are refused after a failure now."""
        return self._pause_s

    def admit(self) -> bool:
        with self._lock:
            if self._opened is None:
                return True
            if self._on_trial or self._clock() < self._opened + self._pause_s:
                return False
            self._on_trial = True
            return True

    def succeed(self) -> bool:
        """Whether this ended an outage."""
        with self._lock:
            was_open = self._opened is not None
            self._opened, self._on_trial, self._pause_s = None, False, self._first_pause_s
            return was_open

    def fail(self) -> bool:
        """Whether this began an outage."""
        with self._lock:
            was_closed = self._opened is None
            if self._on_trial:
                self._pause_s = min(2 * self._pause_s, self._longest_s)
            self._opened, self._on_trial = self._clock(), False
            return was_closed
