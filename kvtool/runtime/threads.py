"""How many CPU threads torch may use."""

from __future__ import annotations

import os

from kvtool.errors import ConfigError

THREADS_PER_CPU = 4  # more only cost memory, and far more crash the thread pool


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
