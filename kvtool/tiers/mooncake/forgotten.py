"""Keys that a store claims to have and could not deliver."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence


class Forgotten:
    """Keys are held for a while: a dead machine's stay listed until the master notices."""

    def __init__(self, duration_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._duration_s = duration_s
        self._clock = clock
        self._lock = threading.Lock()
        self._ends: dict[bytes, float] = {}

    def __contains__(self, key: bytes) -> bool:
        with self._lock:
            return self._ends.get(key, 0.0) > self._clock()

    def add(self, keys: Sequence[bytes]) -> None:
        now = self._clock()
        with self._lock:
            self._ends = {key: end for key, end in self._ends.items() if end > now}
            self._ends.update(dict.fromkeys(keys, now + self._duration_s))

    def discard(self, keys: Sequence[bytes]) -> None:
        """They were stored anew."""
        with self._lock:
            for key in keys:
                self._ends.pop(key, None)
