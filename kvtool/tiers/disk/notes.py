"""Small documents in the index, for other processes: measured rates, the cap."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping

CAP = "cap"
DEFAULT_CAP_BYTES = 10 << 30


def write_note(connection: sqlite3.Connection, name: str, value: Mapping[str, object]) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO notes VALUES (?, ?)", (name, json.dumps(dict(value)))
    )


def read_note(connection: sqlite3.Connection, name: str) -> dict[str, object] | None:
    """None also for one that is not what was written."""
    found = connection.execute("SELECT value FROM notes WHERE name = ?", (name,)).fetchone()
    try:
        value = json.loads(found[0]) if found else None
    except (TypeError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_cap(connection: sqlite3.Connection) -> int | None:
    """What the last process that wrote here was allowed."""
    value = (read_note(connection, CAP) or {}).get("bytes")
    return value if type(value) is int and 0 < value < 1 << 63 else None
