"""Entries out of the index."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from kvtool.tiers.disk.cells import read_fields
from kvtool.tiers.disk.entry import Entry, Totals
from kvtool.tiers.disk.notes import read_cap

_RUNS = """
SELECT id, name, namespace, fields, parent, home, block_size, num_bytes, created, last_used, hits,
       pinned, exact, provenance
FROM runs LEFT JOIN namespaces ON digest = namespace
WHERE owner IS NULL AND {condition} ORDER BY used DESC, home"""
_BLOCKS = """
SELECT run, key, tokens FROM blocks
WHERE run IN (SELECT id FROM runs WHERE owner IS NULL AND {condition}) ORDER BY run, position"""


def read_entries(
    connection: sqlite3.Connection, condition: str = "TRUE", values: Sequence[object] = ()
) -> list[Entry]:
    """Published runs for which `condition` (SQL over `runs`) holds, the most recently used first.

    Raises `sqlite3.DatabaseError` for rows that are not ours."""
    connection.execute("SAVEPOINT entries")  # both questions about the same moment
    try:
        runs = connection.execute(_RUNS.format(condition=condition), values).fetchall()
        blocks = connection.execute(_BLOCKS.format(condition=condition), values).fetchall()
    finally:
        connection.execute("RELEASE entries")
    keys: dict[object, list[bytes]] = defaultdict(list)
    tokens: dict[object, list[bytes]] = defaultdict(list)
    for run, key, block in blocks:
        if not isinstance(key, bytes) or not isinstance(block, bytes) or len(block) % 4:
            raise sqlite3.DatabaseError("a block of another kind")
        keys[run].append(key)
        tokens[run].append(block)
    return [_entry(row, keys[row[0]], b"".join(tokens[row[0]])) for row in runs]


def _entry(row: Sequence[object], keys: list[bytes], tokens: bytes) -> Entry:
    match row:
        case (
            _,
            str(name),
            bytes(namespace),
            fields,
            bytes(parent),
            int(home),
            int(block_size),
            int(num_bytes),
            float(created),
            float(last_used),
            int(hits),
            pinned,
            exact,
            str(provenance),
        ):
            return Entry(
                key=name,
                namespace=namespace,
                fields={} if fields is None else read_fields(fields),
                parent=parent,
                keys=tuple(keys),
                tokens=np.frombuffer(tokens, dtype="<i4").astype(np.int32),
                home=home,
                block_size=block_size,
                num_bytes=num_bytes,
                created=created,
                last_used=last_used,
                hits=hits,
                pinned=bool(pinned),
                exact=bool(exact),
                provenance=provenance,
            )
    raise sqlite3.DatabaseError("a run of another kind")


def read_totals(connection: sqlite3.Connection) -> Totals:
    sums = connection.execute(
        "SELECT COUNT(*), SUM(num_blocks), SUM(num_tokens), SUM(num_bytes),"
        " SUM(num_bytes * pinned) FROM runs WHERE owner IS NULL"
    ).fetchone()
    entries, blocks, tokens, size, pinned = (int(value or 0) for value in sums)
    return Totals(entries, blocks, tokens, size, read_cap(connection), pinned)
