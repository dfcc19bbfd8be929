"""Commands in processes of their own: started, waited for, interrupted."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def environment(**more: str) -> dict[str, str]:
    """This process's, so that a test and its processes share one cache folder."""
    paths = f"{ROOT}:{ROOT / 'kernels'}"
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **more}


def kvtool(*args: str | Path) -> list[str]:
    return [sys.executable, "-m", "kvtool", *map(str, args)]


@contextlib.contextmanager
def running(
    arguments: list[str], stderr: int = subprocess.PIPE, **more: str
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=stderr, env=environment(**more), cwd=ROOT
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def interrupt(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    # What is promised is one second of an idle machine.
    assert time.monotonic() - start < 5
    assert process.returncode == 130
    assert b"Traceback" not in err
    return out, err


def wait_until(done: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 120
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)
