"""Invariants of the index, and of the files it names."""

from __future__ import annotations

import os
import sqlite3

from kvtool.tiers.disk.cap import used_bytes
from kvtool.tiers.disk.folder import CacheFolder


def check_index(connection: sqlite3.Connection, folder: CacheFolder, cap_bytes: int) -> None:
    """Raises `AssertionError`. Within a write transaction: nobody else changes anything."""
    assert used_bytes(connection) <= cap_bytes, "over the cap"
    for name, num_bytes in connection.execute(
        "SELECT name, num_bytes FROM runs WHERE owner IS NULL"
    ):
        assert os.lstat(folder.run_path(name)).st_size == num_bytes, name
    for name, num_blocks, found, last in connection.execute(
        "SELECT name, num_blocks, COUNT(*), MAX(position) FROM runs JOIN blocks ON run = id"
        " GROUP BY id"
    ):
        assert num_blocks == found == last + 1, name
    older = connection.execute(
        "SELECT head.name FROM runs AS tail JOIN blocks ON blocks.key = tail.parent"
        " JOIN runs AS head ON head.id = blocks.run"
        " WHERE head.used < tail.used AND head.owner IS NULL AND tail.owner IS NULL"
    ).fetchone()
    assert older is None, f"{older} would be evicted before what continues it"
