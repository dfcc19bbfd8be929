"""What an eviction policy is to the analysis, and the table of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kvtool.analysis.accesses import Accesses
from kvtool.cache import eviction
from kvtool.errors import ConfigError
from kvtool.names import lookup

Mask = npt.NDArray[np.bool_]

# (accesses, capacities in blocks) -> for each capacity bool [A]: the block was in the cache when
# its request arrived, wherever in the request it is. A request is looked up whole and inserted
# then, into a cache that was empty at the start; capacities are 1 or more.
Simulate = Callable[[Accesses, Sequence[int]], Iterator[Mask]]

SIMULATED = {
    "lru": "kvtool.analysis.policies.lru:lru",
    "lfu": "kvtool.analysis.policies.lfu:lfu",
    "fifo": "kvtool.analysis.policies.fifo:fifo",
    "ttl": "kvtool.analysis.policies.ttl:ttl",
    "belady": "kvtool.analysis.policies.belady:belady",
}
POLICIES = eviction.POLICIES | SIMULATED  # the engine's others by their rank


class Policy(NamedTuple):
    """name: as given, ttl:SECONDS with its seconds."""

    name: str
    simulate: Simulate


def parse_policy(text: str) -> Policy:
    """A name of POLICIES, or ttl:SECONDS; raises `ConfigError`."""
    name, colon, amount = text.partition(":")
    simulate = _simulate(name)
    if name != "ttl":
        if colon:
            raise ConfigError(f"Policy {name!r} takes no {amount!r}; only ttl has a parameter.")
        return Policy(name, simulate)
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", amount) or not float(amount):
        raise ConfigError(
            f"SECONDS is {amount!r} in policy {text!r}; allowed: a number above 0.",
            hint="For example ttl:300 (five minutes) or ttl:3600.",
        )
    return Policy(text, partial(simulate, seconds=float(amount)))


def _simulate(name: str) -> Any:
    found = lookup(POLICIES, name, "policy")
    if name in SIMULATED:
        return found
    from kvtool.analysis.policies.ranked import ranked

    return partial(ranked, policy=found)
