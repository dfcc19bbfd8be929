"""Files that the index does not know: taken into it, or removed where they are no runs."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress

from kvtool.tiers.disk.folder import CacheFolder
from kvtool.tiers.disk.header import Damaged
from kvtool.tiers.disk.rows import describe, insert_run
from kvtool.tiers.disk.run_format import RunHead
from kvtool.tiers.disk.run_head import read_head
from kvtool.tiers.disk.trouble import is_passing, unreadable
from kvtool.tiers.disk.use import touch


def adopt(connection: sqlite3.Connection, folder: CacheFolder, name: str) -> str | None:
    """Within a transaction. Why the file was not taken in; None: it is in the index now.

    One that is no run is removed; one that could not be read now is left for another time. Its KV
    is not read: a checksum that does not match is found when somebody wants it.
    """
    try:
        head, created = _read(folder, name)
    except (Damaged, OSError) as error:
        if isinstance(error, Damaged) or not is_passing(error):
            with suppress(OSError):
                folder.run_path(name).unlink()
        return unreadable(error)
    describe(connection, head.run.namespace, head.fields)
    insert_run(connection, name, head.run, head.block_size, head.file_bytes, created)
    touch(connection, [name], created, hits=0)
    return None


def _read(folder: CacheFolder, name: str) -> tuple[RunHead, float]:
    fd = folder.open_run(name)
    try:
        return read_head(fd, name), os.fstat(fd).st_mtime
    finally:
        os.close(fd)
