"""A load under way: readers fill blocks, the forward waits for one layer at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable


class LoadFailed(Exception):
    """Stored KV turned out unreadable; the tier has forgotten it. The text is the reason.

    Nothing of the step that meant to read it may be kept; the next attempt misses these blocks.
    """


class Loading:
    """Parts, one a tier, each of which delivers every layer.

    on_end: called when nothing is written any more, before `finish` returns (not before it
    raises). `arrived`, `failed` and `ended` are called by the readers, `wait` and `finish` by the thread that
    computes. How long a part may take is the business of its tier.
    """

    def __init__(self, num_parts: int, num_layers: int, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self._missing = [num_parts] * num_layers  # parts that have not delivered a layer
        self._running = num_parts
        self._failure: str | None = None
        self._changed = threading.Condition()

    def arrived(self, layer: int) -> None:
        with self._changed:
            self._missing[layer] -= 1
            if self._missing[layer] == 0:
                self._changed.notify_all()

    def failed(self, reason: str) -> None:
        """A part will not deliver what is missing; it may still write until it has ended."""
        with self._changed:
            self._failure = self._failure or reason
            self._changed.notify_all()

    def ended(self) -> None:
        """A part will not write any more."""
        with self._changed:
            self._running -= 1
            if self._running == 0:
                self._on_end()
            self._changed.notify_all()

    def wait(self, layer: int) -> None:
        """Until all blocks hold this layer; raises `LoadFailed` as soon as one never will."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure or self._missing[layer] <= 0)
            self._raise_failure()

    def finish(self) -> None:
        """Until all parts have ended; raises `LoadFailed` as soon as one failed."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure or self._running == 0)
            self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise LoadFailed(self._failure)
