"""Does a store answer? Its master tells a client no more than that."""

from __future__ import annotations

import time
from typing import NamedTuple

from kvtool.tiers.mooncake.address import parse_remote
from kvtool.tiers.mooncake.client import Client, Unavailable
from kvtool.tiers.mooncake.connection import load_library


class StoreHealth(NamedTuple):
    """latency_ms: of a look-up, None where there was no answer; then `reason` says why."""

    reachable: bool
    latency_ms: float | None
    reason: str | None


def store_health(url: str, *, deadline_s: float = 2.0) -> StoreHealth:
    """Raises `ConfigError` for a wrong URL and where Mooncake is not installed."""
    client = Client(parse_remote(url), deadline_s)
    load_library(deadline_s)
    try:
        client.call(lambda _client: [])
        start = time.perf_counter()
        client.call(lambda store: store.batch_is_exist(["kvtool"]))
    except Unavailable as error:
        return StoreHealth(False, None, str(error))
    return StoreHealth(True, (time.perf_counter() - start) * 1000, None)
