"""Mooncake's C++ library logs to file descriptor 2, whatever it is told; stderr is ours."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

MIN_LOG_LEVEL = "_ZN3fLI17FLAGS_minloglevelE"  # glog's fLI::FLAGS_minloglevel, an int32
FATAL = 3


@contextlib.contextmanager
def silent_stderr() -> Iterator[None]:
    """For a short call that holds the interpreter lock, so that no other thread's text is lost."""
    try:
        kept = os.dup(2)
    except OSError:  # it is closed
        yield
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def silence_log() -> None:
    """From now on only what ends the process is logged.

    The library sets the level itself while it is set up, and knows none above ERROR; so the flag
    of the glog it brings along is set afterwards. Where that has another name, errors stay.
    """
    with contextlib.suppress(OSError, ValueError, StopIteration):
        mapped = Path("/proc/self/maps").read_text().splitlines()
        glog = next(line.split()[-1] for line in mapped if "/libglog" in line)
        ctypes.c_int.in_dll(ctypes.CDLL(glog), MIN_LOG_LEVEL).value = FATAL
