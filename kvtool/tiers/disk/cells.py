"""What may stand in the cells of the index: SQLite itself takes anything anywhere, and whoever
reads them afterwards relies on it."""

from __future__ import annotations

import json
import sqlite3

from kvtool.cache.block_hash import DIGEST_BYTES

_MOST = 1 << 50  # of any number; far from where sums overflow
_BLOB = "typeof({0}) = 'blob'"
_DIGEST = f"{_BLOB} AND length({{0}}) = {DIGEST_BYTES}"
_TOKENS = f"{_BLOB} AND length({{0}}) > 0 AND length({{0}}) % 4 = 0"
_TEXT = "typeof({0}) = 'text'"
_FLAG = "typeof({0}) = 'integer' AND {0} IN (0, 1)"
_POSITION = f"typeof({{0}}) = 'integer' AND {{0}} BETWEEN 0 AND {_MOST}"
_SIZE = f"typeof({{0}}) = 'integer' AND {{0}} BETWEEN 1 AND {_MOST}"
_TIME = "typeof({0}) = 'real' AND abs({0}) < 9e999"  # finite

_CELLS = {
    "namespaces": {"digest": _BLOB, "fields": _TEXT},
    "runs": {
        "name": _TEXT,
        "namespace": _BLOB,
        "parent": _DIGEST,
        "home": _POSITION,
        "block_size": _SIZE,
        "num_blocks": _SIZE,
        "num_tokens": _SIZE,
        "num_bytes": _SIZE,
        "exact": _FLAG,
        "provenance": _TEXT,
        "created": _TIME,
        "last_used": _TIME,
        "used": _POSITION,
        "hits": _POSITION,
        "pinned": _FLAG,
        "owner": f"{{0}} IS NULL OR {_TEXT}",
    },
    "blocks": {
        "position": _POSITION,
        "key": _DIGEST,
        "parent": _DIGEST,
        "content": _DIGEST,
        "home": _POSITION,
        "tokens": _TOKENS,
        "exact": _FLAG,
    },
}

_NOT_ITS_BLOCKS = """
SELECT 1 FROM runs
LEFT JOIN (SELECT run, COUNT(*) AS num, SUM(length(tokens)) AS size FROM blocks GROUP BY run)
    ON run = id
WHERE num IS NOT num_blocks OR size IS NOT 4 * num_tokens
    OR num_tokens NOT BETWEEN (num_blocks - 1) * block_size + 1 AND num_blocks * block_size
LIMIT 1"""


def check_cells(connection: sqlite3.Connection) -> None:
    """Reads every row. Raises `sqlite3.DatabaseError` for one of another kind than ours; notes are
    checked where they are read."""
    connection.execute("SELECT name, value FROM notes LIMIT 0")
    for table, cells in _CELLS.items():
        rules = " AND ".join(f"({rule.format(column)})" for column, rule in cells.items())
        if connection.execute(f"SELECT 1 FROM {table} WHERE NOT ({rules}) LIMIT 1").fetchone():
            raise sqlite3.DatabaseError(f"{table} holds a row of another kind")
    if connection.execute(_NOT_ITS_BLOCKS).fetchone():
        raise sqlite3.DatabaseError("a run with other blocks than it should have")
    connection.execute("SELECT name, provenance, owner FROM runs").fetchall()  # they are UTF-8
    for (fields,) in connection.execute("SELECT fields FROM namespaces"):
        read_fields(fields)


def read_fields(text: object) -> dict[str, object]:
    """What is told about a namespace; raises `sqlite3.DatabaseError` unless it is a JSON object."""
    try:
        fields = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError) as error:
        raise sqlite3.DatabaseError("fields that are not JSON") from error
    if not isinstance(fields, dict):
        raise sqlite3.DatabaseError("fields that are not a JSON object")
    return fields
