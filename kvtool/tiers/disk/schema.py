"""The index as tables. All of it can be made anew from the run files, but for use, pins and notes.

runs.used: a counter, not a clock; a run in front of another is never used longer ago. runs.owner:
the process that is writing the file, NULL once it is published. runs.created and last_used: unix
seconds, for people and for pins. blocks.content: names the tokens of a block wherever they stand.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from urllib.parse import quote

VERSION = 1
BUSY_TIMEOUT_S = 5.0


class OtherVersion(sqlite3.NotSupportedError):
    """The folder belongs to a kvtool that writes another format."""


TABLES = (
    "CREATE TABLE namespaces (digest BLOB PRIMARY KEY, fields TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE notes (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE runs (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL,
        namespace BLOB NOT NULL,
        parent BLOB NOT NULL,
        home INTEGER NOT NULL,
        block_size INTEGER NOT NULL,
        num_blocks INTEGER NOT NULL,
        num_tokens INTEGER NOT NULL,
        num_bytes INTEGER NOT NULL,
        exact INTEGER NOT NULL,
        provenance TEXT NOT NULL,
        created REAL NOT NULL,
        last_used REAL NOT NULL,
        used INTEGER NOT NULL,
        hits INTEGER NOT NULL DEFAULT 0,
        pinned INTEGER NOT NULL DEFAULT 0,
        owner TEXT)""",
    "CREATE UNIQUE INDEX published_runs ON runs (name) WHERE owner IS NULL",
    "CREATE INDEX runs_by_rank ON runs (pinned, used, home DESC)",
    "CREATE INDEX runs_by_use ON runs (used)",
    """CREATE TABLE blocks (
        run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        key BLOB NOT NULL,
        parent BLOB NOT NULL,
        content BLOB NOT NULL,
        home INTEGER NOT NULL,
        tokens BLOB NOT NULL,
        exact INTEGER NOT NULL,
        PRIMARY KEY (run, position)) WITHOUT ROWID""",
    "CREATE INDEX blocks_by_key ON blocks (key)",
    "CREATE INDEX blocks_by_parent ON blocks (parent, run)",
)


def connect(path: Path, *, durable: bool = False, read_only: bool = False) -> sqlite3.Connection:
    """An index that exists. A transaction is begun by `BEGIN`; no statement begins one.

    read_only: without a lock and without looking at what was not checkpointed yet, as is possible
    where nothing can be written; what is found is verified against the files anyway.
    """
    mode = "mode=ro&immutable=1" if read_only else "mode=rw"
    connection = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?{mode}",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,  # closed by whoever closes the tier
    )
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
    return connection


def version(connection: sqlite3.Connection) -> int:
    """0: the index was not finished."""
    found: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return found


def create_tables(connection: sqlite3.Connection) -> None:
    """Within a transaction; the caller sets the version when the tables are filled."""
    for statement in TABLES:
        connection.execute(statement)
