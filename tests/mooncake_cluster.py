"""A real Mooncake store on 127.0.0.1: a master, and a process that lends it memory.

Tests that need one are marked `mooncake_cluster.needed`: where Mooncake cannot be loaded they are
skipped, or fail if KVTOOL_REQUIRE_MOONCAKE is set.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvtool.errors import ConfigError
from kvtool.tiers.mooncake.address import Address
from kvtool.tiers.mooncake.connection import Unreachable, connect, load_library

DEADLINE_S = 2.0  # of every client in this process; the library reads its limits once
PATIENCE_S = 30.0
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def why_not() -> str | None:
    try:
        load_library(DEADLINE_S)
    except ConfigError as error:
        return f"{error.message} {error.hint}"
    return None


needed = pytest.mark.skipif(
    why_not() is not None and "KVTOOL_REQUIRE_MOONCAKE" not in os.environ, reason=str(why_not())
)


class Cluster:
    """`folder` gets the logs. Both processes die with this one, however it ends."""

    def __init__(self, folder: Path, segment_bytes: int, port: int | None) -> None:
        load_library(DEADLINE_S)  # says why it cannot be loaded
        self._folder = folder
        self._segment_bytes = segment_bytes
        self.address = Address("127.0.0.1", port or free_port())
        self.master = self._start_master()
        self.owner = self._start_owner()

    @property
    def url(self) -> str:
        return f"mooncake://{self.address}"

    def wait_for_memory(self) -> None:
        """Until the owner's memory is in use; a lone object `ready` stays behind."""
        data = np.zeros(1, dtype=np.uint8)

        def stored() -> bool:
            with contextlib.suppress(Unreachable):
                client = connect(self.address, DEADLINE_S)
                return bool(client.put_from("ready", data.ctypes.data, 1) == 0)
            return False

        wait_until(stored)

    def restart_master(self) -> None:
        """Empty, at the same address."""
        stop(self.master)
        self.master = self._start_master()
        self.wait_for_memory()

    def close(self) -> None:
        stop(self.owner)
        stop(self.master)

    def _start_master(self) -> subprocess.Popen[bytes]:
        with socket.socket() as sock:  # another one's master would answer, and silently
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(self.address)
        master = self._start(
            "mooncake_master",
            f"--rpc_address={self.address.host}",
            f"--rpc_port={self.address.port}",
            "--metrics_host=127.0.0.1",
            f"--metrics_port={free_port()}",
            "--enable_metric_reporting=false",
        )
        wait_until(lambda: accepts(self.address))
        assert master.poll() is None
        return master

    def _start_owner(self) -> subprocess.Popen[bytes]:
        return self._start(
            "mooncake_client",
            "--host=127.0.0.1",
            f"--port={free_port()}",
            "--metadata_server=P2PHANDSHAKE",
            f"--master_server_address={self.address}",
            f"--global_segment_size={self._segment_bytes}",
        )

    def _start(self, program: str, *options: str) -> subprocess.Popen[bytes]:
        path = Path(sysconfig.get_path("scripts"), program)
        with open(self._folder / f"{program}.log", "ab") as log:
            return subprocess.Popen(
                [path, *options], stdout=log, stderr=log, preexec_fn=die_with_parent
            )


@contextlib.contextmanager
def running(
    folder: Path, *, segment_bytes: int = 64 << 20, port: int | None = None
) -> Iterator[Cluster]:
    cluster = Cluster(folder, segment_bytes, port)
    try:
        cluster.wait_for_memory()
        yield cluster
    finally:
        cluster.close()
        connect.cache_clear()  # ends the threads that look for a master which is gone


@contextlib.contextmanager
def frozen(process: subprocess.Popen[bytes]) -> Iterator[None]:
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)  # it answers until all its threads stand still
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def die_with_parent() -> None:
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def accepts(address: Address) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(address, 1):
        return True
    return False


def wait_until(done: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
