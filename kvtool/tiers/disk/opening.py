"""Opens a cache folder for a tier: for writing, else for reading, else not at all."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from contextlib import suppress

from kvtool.tiers.disk.cap import make_room
from kvtool.tiers.disk.cells import check_cells
from kvtool.tiers.disk.folder import CacheFolder
from kvtool.tiers.disk.index import Index
from kvtool.tiers.disk.notes import CAP, write_note
from kvtool.tiers.disk.rebuild import was_healed
from kvtool.tiers.disk.schema import VERSION, version
from kvtool.tiers.disk.sweep import sweep
from kvtool.tiers.disk.trouble import Warnings, trouble_of


def open_index(
    folder: CacheFolder, warnings: Warnings, *, cap_bytes: int, durable: bool
) -> Index | None:
    """None: the folder cannot be used; `warnings` knows why. Raises `CacheError` for a folder that
    must not be used."""
    error = None
    for _ in range(2):  # the second time, if at all, with a new index
        try:
            return _open_for_writing(folder, cap_bytes, durable)
        except (OSError, sqlite3.Error) as failure:
            error = failure
            if not was_healed(folder, failure):
                break
    assert error is not None
    warnings.add(trouble_of(error, folder.path))
    with suppress(OSError, sqlite3.Error):
        index = Index(folder, read_only=True)
        if version(index.connection()) == VERSION:
            check_cells(index.connection())
            return index
    return None


def _open_for_writing(folder: CacheFolder, cap_bytes: int, durable: bool) -> Index:
    folder.create()
    if not os.access(folder.runs, os.W_OK):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))
    index = Index(folder, durable=durable)
    try:
        check_cells(index.connection())
        sweep(index)
        with index.write() as connection:
            write_note(connection, CAP, {"bytes": cap_bytes})
            make_room(connection, folder, 0, cap_bytes, time.time())
    except BaseException:
        index.close()
        raise
    return index
