"""Rows of the index: a run with its blocks, written and deleted together."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence

from kvtool.cache.backing import Run
from kvtool.cache.block_hash import token_bytes
from kvtool.tiers.disk.folder import CacheFolder
from kvtool.tiers.disk.run_format import content_hashes


def describe(
    connection: sqlite3.Connection, namespace: bytes, fields: Mapping[str, object]
) -> None:
    """What people are told about a namespace; the first to say something is believed."""
    if fields:
        text = json.dumps(dict(fields), sort_keys=True)
        connection.execute("INSERT OR IGNORE INTO namespaces VALUES (?, ?)", (namespace, text))


def insert_run(
    connection: sqlite3.Connection,
    name: str,
    run: Run,
    block_size: int,
    num_bytes: int,
    created: float,
    owner: str | None = None,
) -> int:
    """The new row's id, never used before. owner: the process that is going to write the file."""
    cursor = connection.execute(
        "INSERT INTO runs (name, namespace, parent, home, block_size, num_blocks, num_tokens,"
        " num_bytes, exact, provenance, created, last_used, used, owner)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)",
        (
            *(name, run.namespace, run.parent, run.home, block_size, len(run.keys)),
            *(len(run.tokens), num_bytes, run.exact, run.provenance, created, created, owner),
        ),
    )
    row = cursor.lastrowid
    assert row is not None
    parents = (run.parent, *run.keys[:-1])
    starts = range(0, len(run.tokens), block_size)
    tokens = (token_bytes(run.tokens[start : start + block_size]) for start in starts)
    homes = (run.home + start for start in starts)
    blocks = zip(run.keys, parents, content_hashes(run, block_size), homes, tokens, strict=True)
    connection.executemany(
        "INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        ((row, position, *block, run.exact) for position, block in enumerate(blocks)),
    )
    return row


def delete_run(
    connection: sqlite3.Connection, folder: CacheFolder, row: int, name: str
) -> list[bytes]:
    """Within a transaction: the file first, so that no file is ever without a row. The keys."""
    folder.remove_run(name)
    keys = [key for (key,) in connection.execute("SELECT key FROM blocks WHERE run = ?", (row,))]
    connection.execute("DELETE FROM runs WHERE id = ?", (row,))
    return keys


def delete_named(connection: sqlite3.Connection, folder: CacheFolder, names: Sequence[str]) -> int:
    """Published runs, with their files; bytes freed."""
    freed = 0
    for name in names:
        found = "SELECT id, num_bytes FROM runs WHERE owner IS NULL AND name = ?"
        for row, num_bytes in connection.execute(found, (name,)).fetchall():
            delete_run(connection, folder, row, name)
            freed += num_bytes
    return freed


def remove_blocks(
    connection: sqlite3.Connection, folder: CacheFolder, keys: Sequence[bytes]
) -> int:
    """Delete the runs that hold these blocks; how many of `keys` there were."""
    removed, doomed = 0, set()
    for key in keys:
        found = "SELECT name FROM runs JOIN blocks ON run = id WHERE owner IS NULL AND key = ?"
        names = [name for (name,) in connection.execute(found, (key,))]
        removed += bool(names)
        doomed.update(names)
    delete_named(connection, folder, sorted(doomed))
    return removed


def is_published(connection: sqlite3.Connection, name: str) -> bool:
    found = "SELECT 1 FROM runs WHERE owner IS NULL AND name = ?"
    return connection.execute(found, (name,)).fetchone() is not None
