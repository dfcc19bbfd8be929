"""Makes a cache folder good again: damaged files go, and the index is what the files say."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from kvtool.errors import CacheError
from kvtool.tiers.disk.adopt import adopt
from kvtool.tiers.disk.check import agrees
from kvtool.tiers.disk.entry import Damage, Repaired
from kvtool.tiers.disk.entry_rows import read_entries
from kvtool.tiers.disk.file_check import check_file
from kvtool.tiers.disk.folder import RUNS, CacheFolder
from kvtool.tiers.disk.index import Index
from kvtool.tiers.disk.rebuild import set_aside_damaged
from kvtool.tiers.disk.rows import delete_named
from kvtool.tiers.disk.run_format import RunHead
from kvtool.tiers.disk.sweep import sweep
from kvtool.tiers.disk.trouble import trouble_of

Progress = Callable[[int, int], None]  # done, total


def repair_index(folder: Path, progress: Progress | None = None) -> Repaired:
    """Also where the index cannot be opened; raises `CacheError` where there is no cache, or
    nothing can be written.

    Runs that are good keep their pins and use, if the old index could tell them. Files that are
    none of the cache's are left alone.
    """
    cache = CacheFolder(folder)
    try:
        cache.require()
        cache.create()
        set_aside_damaged(cache)
        with closing(Index(cache)) as index:
            return repair(index, progress)
    except (OSError, sqlite3.Error) as error:
        trouble = trouble_of(error, folder)
        raise CacheError(
            f"The cache in {folder} cannot be repaired: {trouble.reason}.", hint=trouble.advice
        ) from error


def repair(index: Index, progress: Progress | None = None) -> Repaired:
    """Raises `OSError` or `sqlite3.Error`."""
    sweep(index)
    names = sorted(index.folder.run_names())
    kept, dropped = 0, []
    for done, name in enumerate(names, 1):
        with suppress(FileNotFoundError):  # evicted meanwhile
            reasons = _repair_run(index, name)
            if reasons:
                dropped.append(Damage(f"{RUNS}/{name}.safetensors", "; ".join(reasons)))
            else:
                kept += 1
        if progress:
            progress(done, len(names))
    return Repaired(kept, dropped)


def _repair_run(index: Index, name: str) -> list[str]:
    """Why the file was removed; empty: it is good, and the index says what it says."""
    with suppress(OSError):  # if it cannot be opened, `check_file` says why
        index.folder.make_private(name)
    head, reasons = check_file(index.folder, name)
    with index.write() as connection:
        if head is None or reasons:
            delete_named(connection, index.folder, [name])
            index.folder.remove_run(name)
        elif not _is_indexed(connection, head):
            connection.execute("DELETE FROM runs WHERE owner IS NULL AND name = ?", (name,))
            adopt(connection, index.folder, name)
    return reasons


def _is_indexed(connection: sqlite3.Connection, head: RunHead) -> bool:
    try:
        entries = read_entries(connection, "name = ?", (head.name,))
    except sqlite3.DatabaseError:  # rows of another kind
        return False
    return bool(entries) and agrees(entries[0], head)
