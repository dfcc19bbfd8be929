"""A thread that does one job after another."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

GRACE_S = 0.5  # how long closing in a hurry waits for a copy under way
_log = logging.getLogger(__name__)


class Worker:
    """Starts with its first job. A daemon: a process that must end does not wait for it."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def submit(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)
        if not self._thread.is_alive():
            self._thread.start()

    def close(self, timeout_s: float | None = None) -> None:
        """Ends after the jobs submitted so far; returns after `timeout_s` whatever they do."""
        if self._thread.is_alive():
            self._jobs.put(None)
            self._thread.join(timeout_s)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception:  # a job answers for its own failures; the next one must still run
                _log.exception("a job of %s failed", self._thread.name)
