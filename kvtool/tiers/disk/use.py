"""When a run was used: by a counter, so that a clock that goes backwards does no harm."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

_CHAIN = """
WITH RECURSIVE chain (id) AS (
    {start}
    UNION
    SELECT blocks.run FROM chain
    JOIN runs ON runs.id = chain.id
    JOIN blocks ON blocks.key = runs.parent)
"""


def next_use(connection: sqlite3.Connection) -> int:
    found: int = connection.execute("SELECT COALESCE(MAX(used), 0) + 1 FROM runs").fetchone()[0]
    return found


def touch(
    connection: sqlite3.Connection, names: Sequence[str], now: float, *, hits: int = 1
) -> None:
    """Mark runs, and all in front of them, as just used: a tail without its head is worth nothing,
    so no head is ever older than its tails. now: unix seconds."""
    start = f"SELECT id FROM runs WHERE owner IS NULL AND name IN ({marks(names)})"
    connection.execute(
        _CHAIN.format(start=start)
        + "UPDATE runs SET used = ?, last_used = ? WHERE id IN (SELECT id FROM chain)",
        (*names, next_use(connection), now),
    )
    connection.execute(
        f"UPDATE runs SET hits = hits + ? WHERE owner IS NULL AND name IN ({marks(names)})",
        (hits, *names),
    )


def touch_parents(connection: sqlite3.Connection, parent: bytes, use: int, now: float) -> int:
    """Mark the runs in front of one that is about to be written; how many there are."""
    connection.execute(
        _CHAIN.format(start="SELECT run FROM blocks WHERE key = ?")
        + "UPDATE runs SET used = ?, last_used = ? WHERE id IN (SELECT id FROM chain)",
        (parent, use, now),
    )
    changed: int = connection.execute("SELECT changes()").fetchone()[0]
    return changed


def with_parents(connection: sqlite3.Connection, names: Sequence[str]) -> list[int]:
    """Ids of runs and of all in front of them."""
    start = f"SELECT id FROM runs WHERE owner IS NULL AND name IN ({marks(names)})"
    rows = connection.execute(_CHAIN.format(start=start) + "SELECT id FROM chain", tuple(names))
    return [row for (row,) in rows]


def marks(values: Sequence[object]) -> str:
    """Placeholders for a list in a statement."""
    return ", ".join("?" * len(values))
