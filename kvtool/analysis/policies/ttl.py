"""Blocks that expire when they are not used for a while."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kvtool.analysis.accesses import Accesses
from kvtool.analysis.policies.policy import Mask
from kvtool.analysis.stack_distances import stack_distances
from kvtool.errors import ConfigError


def ttl(accesses: Accesses, capacities: Sequence[int], *, seconds: float) -> Iterator[Mask]:
    """A block is dropped when it was not used for more than `seconds`; every use begins anew
    (as providers of cached prompts bill it). Where there is no room, LRU, tail first.

    What has expired would be evicted first, so a block is there exactly if it is recent enough
    and LRU has it. Raises `ConfigError` for a trace without times.
    """
    unknown = int(np.count_nonzero(np.isnan(accesses.arrivals)))
    if unknown:
        raise ConfigError(
            f"Policy 'ttl:{seconds:g}' needs the time of every request; "
            f"{unknown} of {accesses.num_requests} have none.",
            hint="Leave ttl out of --policies.",
        )
    times = accesses.arrivals[accesses.requests]
    is_recent = times - times[accesses.previous] <= seconds  # at first sight LRU says no
    distances = stack_distances(accesses)
    return (is_recent & (distances <= capacity) for capacity in capacities)
