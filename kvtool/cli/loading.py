"""Opens and closes the runtime of a command; says on stderr what takes long and what is amiss."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from kvtool.cli import output
from kvtool.cli.progress import progress
from kvtool.config import EngineConfig

if TYPE_CHECKING:
    from kvtool.runtime import Runtime

PATIENCE_S = 1.0  # a wait that needs no word


@contextmanager
def open_runtime(config: EngineConfig) -> Iterator[Runtime]:
    """Ends when the KV of the run is kept. After an error or Ctrl-C it waits for nothing."""
    from kvtool.runtime import Runtime

    with logged_warnings():
        with progress("Loading the model") as say:
            runtime = Runtime.open(config, progress=say)
        try:
            yield runtime
            wait_for_saves(runtime)
        except typer.Exit:  # the report is out; what was computed for it is as good as ever
            wait_for_saves(runtime)
            raise
        finally:
            runtime.close(flush=False)


def wait_for_saves(runtime: Runtime) -> None:
    """Until all KV is where it is to be kept, so that a report can count it."""
    if not runtime.flush(PATIENCE_S):
        with progress("Storing KV") as say:
            say("Storing KV")
            runtime.flush()


class _WarningHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        output.warn(record.getMessage())


@contextmanager
def logged_warnings() -> Iterator[None]:
    """What the packages below log as a warning, in the voice of the command line."""
    log, handler = logging.getLogger("kvtool"), _WarningHandler(logging.WARNING)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
