"""A thread that does one job after another."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from queue import SimpleQueue

GRACE_S = 0.5  # how long closing in a hurry waits for a copy under way
_log = logging.getLogger(__name__)


class Worker:
    """Starts with its first job. A daemon: a process that must end does not wait for it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def _is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def submit(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)
        if not self._is_running:  # not yet, or not any more: a fork leaves threads behind
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()

    def close(self, timeout_s: float | None = None) -> bool:
        """Ends after the jobs submitted so far; whether it has, after at most `timeout_s`."""
        if self._thread is not None and self._is_running:
            self._jobs.put(None)
            self._thread.join(timeout_s)
        return not self._is_running

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception:  # a job answers for its own failures; the next one must still run
                _log.exception("a job of %s failed", self._name)


def close_all(workers: Iterable[Worker], timeout_s: float | None = None) -> bool:
    """Whether all have ended, after at most `timeout_s` together."""
    end = None if timeout_s is None else time.monotonic() + timeout_s
    ended = [
        worker.close(None if end is None else max(0.0, end - time.monotonic()))
        for worker in workers
    ]
    return all(ended)
