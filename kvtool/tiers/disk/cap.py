"""The size cap: room is made before a file is written, in the transaction that reserves it.

Every file has a row from before it is written until it is gone, so the sum over the rows is what
all processes together have on disk or are about to have.
"""

from __future__ import annotations

import sqlite3

from kvtool.tiers.disk.folder import CacheFolder
from kvtool.tiers.disk.pins import lapse
from kvtool.tiers.disk.rows import delete_run
from kvtool.tiers.disk.use import next_use


def used_bytes(connection: sqlite3.Connection) -> int:
    found = connection.execute("SELECT COALESCE(SUM(num_bytes), 0) FROM runs").fetchone()[0]
    return int(found)


def make_room(
    connection: sqlite3.Connection,
    folder: CacheFolder,
    num_bytes: int,
    cap_bytes: int,
    now: float,
    *,
    protected: int | None = None,
) -> list[bytes] | None:
    """Evict until `num_bytes` more fit: unpinned runs first, the least recently used first, of
    those used together the tails first. The keys of their blocks; None: that is not enough, and
    nothing was evicted.

    protected: runs used then or later stay (those in front of the new one). Within a transaction.
    """
    excess = used_bytes(connection) + num_bytes - cap_bytes
    if excess <= 0:
        return []
    lapse(connection, cap_bytes, now)
    limit = next_use(connection) if protected is None else protected
    ranked = connection.execute(
        "SELECT id, name, num_bytes FROM runs WHERE owner IS NULL AND used < ?"
        " ORDER BY pinned, used, home DESC",
        (limit,),
    )
    victims = []
    for row, name, size in ranked:
        victims.append((row, name))
        excess -= size
        if excess <= 0:
            break
    ranked.close()
    if excess > 0:
        return None
    return [key for row, name in victims for key in delete_run(connection, folder, row, name)]
