"""Opens the runtime of a command and says on stderr what takes long and what is amiss."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kvtool.cli import output
from kvtool.config import EngineConfig

if TYPE_CHECKING:
    from kvtool.runtime import Runtime


@contextmanager
def open_runtime(config: EngineConfig) -> Iterator[Runtime]:
    from kvtool.runtime import Runtime

    with _logged_warnings():
        with _progress() as progress:
            runtime = Runtime.open(config, progress=progress)
        try:
            yield runtime
        finally:
            runtime.close()


class _WarningHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        output.warn(record.getMessage())


@contextmanager
def _logged_warnings() -> Iterator[None]:
    """What the packages below log as a warning, in the voice of the command line."""
    log, handler = logging.getLogger("kvtool"), _WarningHandler(logging.WARNING)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """A spinner on a terminal, which leaves no trace; elsewhere one line for each long task."""
    if not output.is_fancy_stderr():
        yield output.talk
        return
    from rich.console import Console

    with Console(stderr=True).status("Loading the model") as status:
        yield lambda line: status.update(line)
