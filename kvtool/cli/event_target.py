"""Where `--events` may go: opening a file empties it, and stdout has a reader of its own."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable

from kvtool.cli.parsers import non_empty
from kvtool.cli.text import STDIN
from kvtool.config import EngineConfig
from kvtool.errors import ConfigError

_STDIN_FD, _STDOUT_FD = 0, 1


def parse_events(path: str) -> str:
    if path == "-":
        raise ValueError("stdout carries the reply; name a file.")
    return non_empty(path)


def check_event_file(engine: EngineConfig, inputs: Iterable[str | None]) -> None:
    """Raises `ConfigError` when it is one of the `inputs` (`-` is stdin) or the model, what stdout
    goes to, or in the cache folder."""
    path = engine.events
    check_not_cache(engine, "--events", path)
    events = _identity(path)
    if events is None:
        return
    for name in (engine.model, *inputs):
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


def check_not_cache(engine: EngineConfig, option: str, path: str | None) -> None:
    """Raises `ConfigError` for a file in the cache folder."""
    from kvtool.runtime.cache_folder import cache_folder, check_outside  # here: help needs neither

    if engine.keeps_on_disk:
        check_outside(cache_folder(engine.cache_dir), option, path)


def is_stdout(path: str) -> bool:
    """Whether stdout goes to this file or pipe."""
    found = _identity(path)
    return found is not None and found == _identity(_STDOUT_FD)


def _identity(file: str | int | None) -> tuple[int, int] | None:
    """None for what does not exist, and for devices: a terminal or /dev/null may be both."""
    if file is not None:
        with contextlib.suppress(OSError):
            found = os.stat(file)
            return None if stat.S_ISCHR(found.st_mode) else (found.st_dev, found.st_ino)
    return None
