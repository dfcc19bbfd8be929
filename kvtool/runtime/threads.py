"""How many CPU threads torch may use, and how they wait for each other."""

from __future__ import annotations

import os

from kvtool.errors import ConfigError

THREADS_PER_CPU = 4  # more only cost memory, and far more crash the thread pool


def wait_passively() -> None:
    """Threads of a parallel region sleep while they wait, unless the environment says otherwise.

    By default OpenMP spins: when another process takes a core, the thread that spins keeps the
    other one from being moved, and every small operation waits for a time slice (measured:
    benchmarks/cases/contention.py). Read when torch is loaded, so call it before.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def set_threads(threads: int) -> None:
    """Raises `ConfigError` beyond `THREADS_PER_CPU` for each logical CPU of this machine."""
    num_cpus = os.cpu_count() or 1
    most = THREADS_PER_CPU * num_cpus
    if not 1 <= threads <= most:
        raise ConfigError(
            f"--threads is {threads}; allowed: 1 to {most}, "
            f"{THREADS_PER_CPU} for each of the {num_cpus} logical CPUs."
        )
    import torch

    torch.set_num_threads(threads)
