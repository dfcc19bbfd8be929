"""Which process a half-done write belongs to, and whether it still runs."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

_OWNER = re.compile(r"(\d{1,10})-(\d{1,20})")


def current_owner() -> str:
    """Process id and start time: ids are reused, the pair is not. Asked anew after a fork."""
    return _owner(os.getpid())


@lru_cache(maxsize=4)
def _owner(pid: int) -> str:
    return f"{pid}-{_start_time(pid) or 0}"


def is_running(owner: str) -> bool:
    match = _OWNER.fullmatch(owner)
    if match is None:
        return False
    pid, start = int(match[1]), int(match[2])
    return _start_time(pid) == start if start else _exists(pid)


def _start_time(pid: int) -> int | None:
    """Clock ticks since boot, field 22 of /proc/PID/stat; None: no such process, or no /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat.rpartition(b")")[2].split()  # a process may be called ") x 1 ("
    return None if fields[0] == b"Z" else int(fields[19])


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True
