"""The index of a cache folder: one connection a thread, and transactions."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kvtool.tiers.disk.folder import CacheFolder
from kvtool.tiers.disk.rebuild import make_index
from kvtool.tiers.disk.schema import connect


class Index:
    """Opened by a process for as long as it likes; others may delete the file or move it aside at
    any moment, so every use looks whether it is still the same one.

    Everything may raise `OSError` or `sqlite3.Error`.
    """

    def __init__(
        self, folder: CacheFolder, *, durable: bool = False, read_only: bool = False
    ) -> None:
        self.folder = folder
        self.read_only = read_only
        self._durable = durable
        self._threads = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._process = os.getpid()
        self._inherited: list[sqlite3.Connection] = []

    def connection(self) -> sqlite3.Connection:
        """For reading, in the calling thread."""
        self._leave_to_parent()
        identity = self._identity()
        if getattr(self._threads, "identity", None) != identity or identity is None:
            self._reconnect()
        connection: sqlite3.Connection = self._threads.connection
        return connection

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction, alone in the folder: all of it happens or nothing."""
        connection = self.connection()
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    def _leave_to_parent(self) -> None:
        """In a forked process: SQLite allows it neither to use nor to close what it inherited."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._inherited += self._connections
            self._connections, self._threads = [], threading.local()

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = os.lstat(self.folder.index)
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino

    def _reconnect(self) -> None:
        if not self.read_only:
            make_index(self.folder, durable=self._durable)
        identity = self._identity()
        old: sqlite3.Connection | None = self._threads.__dict__.pop("connection", None)
        self._threads.identity = None
        if old is not None:
            self._connections.remove(old)
            old.close()
        connection = connect(self.folder.index, durable=self._durable, read_only=self.read_only)
        self._connections.append(connection)
        self._threads.connection, self._threads.identity = connection, identity

    def close(self) -> None:
        """Also of other threads: nobody may use it any more."""
        self._leave_to_parent()
        while self._connections:
            self._connections.pop().close()
        self._threads = threading.local()
