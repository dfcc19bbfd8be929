"""Cache events as JSON Lines."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from kvtool.errors import ConfigError

if TYPE_CHECKING:
    from kvtool.cache.events import Event, EventSink

_log = logging.getLogger(__name__)

_FIRST_BYTES = b'{"type": "'  # of every line we write


class EventFile:
    """One JSON object a line, written through at once: others follow the file while we run.

    Nothing is written before `open`. A file that is there already is replaced only where it is
    empty or an earlier event file. A disk that fills up or a reader that leaves ends the events
    with a warning, not the run.
    """

    def __init__(self, path: str) -> None:
        """Raises `ConfigError` for a file that cannot or must not be written."""
        self._path = path
        self._file: TextIO | None = None
        self._check()

    def open(self) -> None:
        """From here on the old content is gone. Raises `ConfigError`."""
        try:
            self._file = open(self._path, "w", encoding="utf-8", buffering=1)  # noqa: SIM115
        except OSError as error:
            raise self._refusal(error.strerror) from None

    def write(self, event: Event) -> None:
        from kvtool.cache.events import as_json

        if self._file is not None:
            try:
                self._file.write(json.dumps(as_json(event)) + "\n")
            except OSError as error:
                _log.warning(
                    "%s The run goes on without events.", self._refusal(error.strerror).message
                )
                self.close()

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):  # said before: its buffer holds what failed
                file.close()

    def _check(self) -> None:
        """Before the model is loaded, which takes long; a pipe or device is not touched yet."""
        folder = os.path.dirname(self._path) or "."
        if os.path.isdir(self._path):
            raise self._refusal(os.strerror(errno.EISDIR))
        if not os.path.isdir(folder):
            raise self._refusal(os.strerror(errno.ENOENT))
        if not os.access(self._path if os.path.exists(self._path) else folder, os.W_OK):
            raise self._refusal(os.strerror(errno.EACCES))
        if os.path.isfile(self._path):
            self._check_content()

    def _check_content(self) -> None:
        try:
            with open(self._path, "rb") as file:
                start = file.read(len(_FIRST_BYTES))
        except OSError as error:
            raise self._refusal(error.strerror) from None
        if start and start != _FIRST_BYTES:
            raise ConfigError(
                f"--events {self._path!r} exists and does not hold events; it is left as it is.",
                hint="Name a file that does not exist yet.",
            )

    def _refusal(self, reason: str | None) -> ConfigError:
        return ConfigError(f"Cannot write --events {self._path!r}: {reason}.")


def fan_out(sinks: Sequence[EventSink]) -> EventSink | None:
    if len(sinks) < 2:
        return sinks[0] if sinks else None

    def send(event: Event) -> None:
        for sink in sinks:
            sink(event)

    return send
