"""Where `--events` may go: opening a file empties it, and stdout has a reader of its own."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable

from kvtool.cli.parsers import non_empty
from kvtool.cli.text import STDIN
from kvtool.errors import ConfigError

_STDIN_FD, _STDOUT_FD = 0, 1


def parse_events(path: str) -> str:
    if path == "-":
        raise ValueError("stdout carries the reply; name a file.")
    return non_empty(path)


def check_event_file(path: str | None, inputs: Iterable[str | None]) -> None:
    """Raises `ConfigError` when it is one of the `inputs` (`-` is stdin), or what stdout goes to."""
    events = _identity(path)
    if events is None:
        return
    for name in inputs:
        if _identity(_STDIN_FD if name == STDIN else name) == events:
            raise ConfigError(
                f"--events {path!r} is read in this run, and would be emptied before.",
                hint="Give --events a file of its own.",
            )
    if _identity(_STDOUT_FD) == events:
        raise ConfigError(
            f"--events {path!r} is where stdout goes, and would be mixed with the reply.",
            hint="Give --events a file of its own.",
        )


def _identity(file: str | int | None) -> tuple[int, int] | None:
    """None for what does not exist, and for devices: a terminal or /dev/null may be both."""
    if file is not None:
        with contextlib.suppress(OSError):
            found = os.stat(file)
            return None if stat.S_ISCHR(found.st_mode) else (found.st_dev, found.st_ino)
    return None
