"""Makes an index where there is none that can be used: from the files."""

from __future__ import annotations

import logging
import os
import sqlite3
from contextlib import closing, suppress
from typing import Literal

from filelock import FileLock

from kvtool.tiers.disk.adopt import adopt
from kvtool.tiers.disk.cells import check_cells
from kvtool.tiers.disk.folder import DAMAGED_INDEX, INDEX_COMPANIONS, CacheFolder, create_private
from kvtool.tiers.disk.schema import VERSION, OtherVersion, connect, create_tables, version
from kvtool.tiers.disk.trouble import is_damage

LOCK_TIMEOUT_S = 60.0  # a rebuild reads the head of every file
_log = logging.getLogger(__name__)

State = Literal["good", "missing", "damaged"]


def make_index(folder: CacheFolder, *, durable: bool = False) -> None:
    """Afterwards there is a good index. A damaged one is moved aside, with a warning.

    Several processes may come at once: one makes it, the others wait.
    Raises `OtherVersion` for an index of another format.
    """
    with suppress(sqlite3.OperationalError):  # it may be made just now: look again, alone
        if index_state(folder) == "good":
            return
    with folder_lock(folder):
        state = index_state(folder)
        if state == "good":
            return
        if state == "damaged":
            _set_aside(folder)
        _make(folder, durable)


def set_aside_damaged(folder: CacheFolder) -> bool:
    """Read all of the index, and move it away if it is damaged; the next use makes a new one."""
    with folder_lock(folder):
        if index_state(folder, thorough=True) != "damaged":
            return False
        _set_aside(folder)
        return True


def was_healed(folder: CacheFolder, error: Exception) -> bool:
    """Whether `error` told of a damaged index that is out of the way now: try again."""
    if not isinstance(error, sqlite3.Error) or not is_damage(error):
        return False
    try:
        return set_aside_damaged(folder)
    except (OSError, sqlite3.Error):
        return False


def _set_aside(folder: CacheFolder) -> None:
    _log.warning(
        "The index of %s is damaged; it was moved to %s and is made anew from the files.",
        folder.path,
        DAMAGED_INDEX,
    )
    os.replace(folder.index, folder.path / DAMAGED_INDEX)


def index_state(folder: CacheFolder, *, thorough: bool = False) -> State:
    """An unfinished one counts as missing. thorough: read all of it, every cell.

    Without `folder_lock` it may be in the making; only "good" can be relied on then.
    """
    if not folder.index.exists():
        return "missing"
    try:
        with closing(connect(folder.index)) as connection:
            found = version(connection)
            if found == 0:
                return "missing"
            if thorough and found == VERSION:
                _check_all(connection)
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            return "damaged"
        raise
    if found != VERSION:
        raise OtherVersion(f"it has format version {found}; this kvtool uses {VERSION}")
    return "good"


def _check_all(connection: sqlite3.Connection) -> None:
    verdict: str = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)
    check_cells(connection)


def folder_lock(folder: CacheFolder) -> FileLock:
    """Held while an index is made or moved; raises `OSError` (filelock's Timeout is one)."""
    with suppress(FileExistsError):
        os.close(create_private(folder.lock))
    return FileLock(folder.lock, timeout=LOCK_TIMEOUT_S, mode=0o600)


def _make(folder: CacheFolder, durable: bool) -> None:
    for name in (folder.index.name, *INDEX_COMPANIONS):  # an old log would be replayed
        (folder.path / name).unlink(missing_ok=True)
    os.close(create_private(folder.index))
    with closing(connect(folder.index, durable=durable)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        create_tables(connection)
        for name in _by_age(folder):
            adopt(connection, folder, name)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")


def _by_age(folder: CacheFolder) -> list[str]:
    """Oldest first: the order in which they would have been used."""
    ages = {}
    for name in folder.run_names():
        with suppress(OSError):
            ages[name] = os.lstat(folder.run_path(name)).st_mtime_ns
    return sorted(ages, key=lambda name: (ages[name], name))
