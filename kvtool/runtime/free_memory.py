"""How much memory this process may still take."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def free_host_memory() -> int:
    """Bytes, within the limit of the container."""
    return min(_available_memory(), cgroup_memory(Path("/sys/fs/cgroup")))


def _available_memory() -> int:
    """What the kernel could hand out without swapping; elsewhere than on Linux, all memory."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable:"))
        return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def cgroup_memory(folder: Path) -> int:
    """What the container may still take; no limit where there is none.

    Cached files that nobody reads (the weights just loaded, for one) are counted as used but
    handed back under pressure.
    """
    with contextlib.suppress(OSError, ValueError):
        limit, used = (int((folder / f"memory.{what}").read_text()) for what in ("max", "current"))
        lines = (folder / "memory.stat").read_text().splitlines()
        reclaimable = sum(
            int(line.split()[1]) for line in lines if line.startswith("inactive_file ")
        )
        return max(0, limit - used + reclaimable)
    return 2**63 - 1
