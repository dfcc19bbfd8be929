"""Ctrl-C ends the process within a second, whatever it is doing.

The first signal raises KeyboardInterrupt where Python runs, so partial text stays and files are
closed. A long kernel, or an import that swallows the exception, gets `GRACE_SECONDS`; a second
Ctrl-C ends the process at once. Until `install`, `kvtool.__main__` has a handler of its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130
GRACE_SECONDS = 0.7
SHOW_CURSOR = "\x1b[?25h"


def install() -> None:
    signal.signal(signal.SIGINT, _first)
    sys.unraisablehook = _unraisable


def leave(code: int) -> NoReturn:
    """End the process now. Python's own way out takes as long as a start once torch is loaded, and
    a signal would no longer be handled in it. What must be closed is closed by now."""
    signal.signal(signal.SIGINT, _second)
    for file in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # full, closed, None
            file.flush()
    os._exit(code)


def _first(_signal: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, _second)
    deadline = threading.Timer(GRACE_SECONDS, _end)
    deadline.daemon = True
    deadline.start()
    raise KeyboardInterrupt


def _second(_signal: int, _frame: FrameType | None) -> None:
    _end()


def _unraisable(dropped: sys.UnraisableHookArgs) -> None:
    """Python drops what is raised in a callback or finaliser; an interrupt must not be lost so."""
    if isinstance(dropped.exc_value, KeyboardInterrupt):
        os.write(2, b"error: interrupted\n")
        _end()
    sys.__unraisablehook__(dropped)


def _end() -> None:
    """Without clean-up: a spinner may have hidden the cursor."""
    if sys.stderr is not None and sys.stderr.isatty():
        os.write(sys.stderr.fileno(), SHOW_CURSOR.encode())
    os._exit(INTERRUPTED)
