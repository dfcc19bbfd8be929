"""Connecting to a Mooncake master, in bounded time."""

from __future__ import annotations

import math
import os
import socket
from functools import cache
from typing import Any

from kvtool.errors import ConfigError
from kvtool.tiers.mooncake.address import Address, join_host_port
from kvtool.tiers.mooncake.quiet import silence_log, silent_stderr

PROBE_S = 0.5  # for a TCP connection to the master


class Unreachable(Exception):
    """Nothing that answers as a master is there. The text is the reason."""


def load_library(deadline_s: float) -> type[Any]:
    """`MooncakeDistributedStore`; raises `ConfigError` where it is not installed.

    Its own time limits (a call 30 s, set-up 90 s) are read from the environment. They are made to
    fit ours, so that a call which was given up also ends; what the user has set stays.
    """
    for name, value in _time_limits(deadline_s).items():
        os.environ.setdefault(name, value)
    try:
        from mooncake.store import MooncakeDistributedStore
    except ModuleNotFoundError:
        raise ConfigError(
            "A remote store needs Mooncake, which is not installed.",
            hint="pip install 'kvtool[mooncake]'",
        ) from None
    except ImportError as error:  # a shared library of the system
        raise ConfigError(
            f"Mooncake is installed but cannot be loaded: {error}.",
            hint="apt-get install libibverbs1",
        ) from None
    return MooncakeDistributedStore  # type: ignore[no-any-return]


def _time_limits(deadline_s: float) -> dict[str, str]:
    """Where a machine that holds objects is silent, a transfer ends after three limits for its
    progress, one for its status and 3 s: until then it has our buffers."""
    transfer_s = str(math.ceil(deadline_s / 2))
    return {
        "MC_RPC_TIMEOUT_MS": str(math.ceil(deadline_s * 1000)),
        "MC_RPC_CONNECT_TIMEOUT_MS": str(math.ceil(PROBE_S * 1000)),
        "MC_STORE_CLIENT_SETUP_RETRIES": "1",
        "MC_TCP_PROGRESS_TIMEOUT_SEC": transfer_s,
        "MC_TCP_STATUS_TIMEOUT_SEC": transfer_s,
        "MC_LOG_LEVEL": "ERROR",
    }


@cache
def connect(address: Address, deadline_s: float) -> Any:
    """A client that lends no memory to the store; raises `Unreachable`.

    One for each master, and kept until the process ends: it has 30 threads, finds back to a
    restarted master by itself, and ending it takes 0.8 s in which no Python thread runs. Set-up
    keeps them from running too; so the port is tried first, and a master that is there but
    silent costs the deadline.
    """
    try:
        with socket.create_connection(address, PROBE_S) as probe:
            local, master = probe.getsockname()[0], probe.getpeername()[0]
    except OSError as error:
        raise Unreachable(f"no connection ({error.strerror or error})") from None
    store = load_library(deadline_s)()
    with silent_stderr():
        code = store.setup(
            local, "P2PHANDSHAKE", 0, 0, "tcp", "", join_host_port(master, address.port)
        )
    silence_log()
    if code != 0:
        raise Unreachable("what listens there does not answer as a Mooncake master")
    return store
