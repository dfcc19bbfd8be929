"""What processes that were killed left behind: finished where they got far enough, else removed."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress

from kvtool.tiers.disk.adopt import adopt
from kvtool.tiers.disk.folder import CacheFolder
from kvtool.tiers.disk.index import Index
from kvtool.tiers.disk.owner import is_running
from kvtool.tiers.disk.rows import is_published

MAX_AGE_S = 3600.0  # of an unfinished file, whoever seems to write it


def sweep(index: Index) -> None:
    """Make index and files agree, in one transaction, so that nobody publishes meanwhile."""
    with index.write() as connection:
        drop_abandoned(connection, index.folder)
        for name in leftovers(index.folder):
            with suppress(FileNotFoundError):
                (index.folder.runs / name).unlink()
        files = index.folder.run_names()
        rows = {name for (name,) in connection.execute("SELECT name FROM runs WHERE owner IS NULL")}
        for name in files - rows:  # one that is only reserved was given up between name and row
            adopt(connection, index.folder, name)
        _drop_rows_without_file(connection, files)


def drop_abandoned(connection: sqlite3.Connection, folder: CacheFolder) -> None:
    """Room that was reserved by a process that was killed since, or more than `MAX_AGE_S` ago.
    A file that had its final name already is taken in."""
    rows = "SELECT id, name, owner, created FROM runs WHERE owner IS NOT NULL"
    for row, name, owner, created in connection.execute(rows).fetchall():
        if is_running(owner) and time.time() - created <= MAX_AGE_S:
            continue
        folder.remove_temp(name, owner, row)
        connection.execute("DELETE FROM runs WHERE id = ?", (row,))
        if name in folder.run_names() and not is_published(connection, name):
            adopt(connection, folder, name)


def leftovers(folder: CacheFolder) -> list[str]:
    """Unfinished files that nobody will finish."""
    return sorted(
        name
        for name, owner in folder.temp_owners().items()
        if not is_running(owner) or _file_age(folder, name) > MAX_AGE_S
    )


def _file_age(folder: CacheFolder, name: str) -> float:
    try:
        return time.time() - os.lstat(folder.runs / name).st_mtime
    except FileNotFoundError:
        return 0.0


def _drop_rows_without_file(connection: sqlite3.Connection, files: set[str]) -> None:
    rows = "SELECT id, name FROM runs WHERE owner IS NULL"
    for row, name in connection.execute(rows).fetchall():
        if name not in files:
            connection.execute("DELETE FROM runs WHERE id = ?", (row,))
