"""Soft pins: a pinned run is evicted when nothing else is left, and not kept for ever.

At most `PIN_SHARE` of the cap is pinned, so there is always room that anybody may use. A pin that
nobody used for `PIN_IDLE_S` lapses.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from kvtool.errors import CacheError
from kvtool.tiers.disk.entry import bytes_text
from kvtool.tiers.disk.use import marks, with_parents

PIN_SHARE = 0.5
PIN_IDLE_S = 7 * 24 * 3600.0


def pin(
    connection: sqlite3.Connection, names: Sequence[str], cap_bytes: int | None, now: float
) -> int:
    """Pin runs and all in front of them, without which they are worth nothing; bytes pinned now.

    Within a transaction. Raises `CacheError` when that is more than the share.
    """
    rows = with_parents(connection, names)
    connection.execute(
        f"UPDATE runs SET pinned = 1, last_used = ? WHERE id IN ({marks(rows)})", (now, *rows)
    )
    pinned = pinned_bytes(connection)
    if cap_bytes is not None and pinned > PIN_SHARE * cap_bytes:
        raise CacheError(
            f"{bytes_text(pinned)} would be pinned; at most "
            f"{bytes_text(int(PIN_SHARE * cap_bytes))} may be, {PIN_SHARE:.0%} of the cache size.",
            hint="Unpin other runs, or raise --cache-size.",
        )
    return pinned


def unpin(connection: sqlite3.Connection, names: Sequence[str]) -> int:
    cursor = connection.execute(
        f"UPDATE runs SET pinned = 0 WHERE pinned AND owner IS NULL AND name IN ({marks(names)})",
        tuple(names),
    )
    return cursor.rowcount


def lapse(connection: sqlite3.Connection, cap_bytes: int, now: float) -> None:
    """Drop pins that were idle for too long, and the oldest while they exceed the share (the cap
    may have been lowered). Within a transaction."""
    connection.execute(
        "UPDATE runs SET pinned = 0 WHERE pinned AND last_used < ?", (now - PIN_IDLE_S,)
    )
    excess = pinned_bytes(connection) - int(PIN_SHARE * cap_bytes)
    if excess <= 0:
        return
    oldest = "SELECT id, num_bytes FROM runs WHERE pinned ORDER BY used, home DESC"
    for row, num_bytes in connection.execute(oldest).fetchall():
        if excess <= 0:
            break
        connection.execute("UPDATE runs SET pinned = 0 WHERE id = ?", (row,))
        excess -= num_bytes


def pinned_bytes(connection: sqlite3.Connection) -> int:
    found = connection.execute("SELECT COALESCE(SUM(num_bytes), 0) FROM runs WHERE pinned")
    total: int = found.fetchone()[0]
    return total
