"""Which blocks are stored: questions to the index, answered with rows that make sense.

The index is not checksummed. A row whose types are not ours is passed over; a row that says
something else than the file is found out when the file is read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from kvtool.tiers.disk.use import marks

MAX_KEYS = 1000  # of one statement
MAX_CHILDREN = 64  # looked at behind one block, the most recent first

_COLUMNS = "blocks.key, blocks.tokens, blocks.position, runs.name, runs.num_bytes"
_TABLES = "blocks JOIN runs ON runs.id = blocks.run"


class BlockRow(NamedTuple):
    """A stored block. tokens: little-endian int32. run: the stem of its file."""

    key: bytes
    tokens: bytes
    position: int
    run: str
    run_bytes: int


def stored_prefix(
    connection: sqlite3.Connection, blocks: Iterable[tuple[bytes, bytes]]
) -> Iterator[list[BlockRow]]:
    """For each leading block (key and tokens) the rows that hold it, until one has none."""
    remaining = iter(blocks)
    while chunk := list(islice(remaining, MAX_KEYS)):
        found = stored(connection, chunk)
        for block in chunk:
            if block not in found:
                return
            yield found[block]


def stored(
    connection: sqlite3.Connection, blocks: Sequence[tuple[bytes, bytes]]
) -> dict[tuple[bytes, bytes], list[BlockRow]]:
    """Of at most `MAX_KEYS` blocks (key and tokens) those that are there."""
    keys = [key for key, _ in blocks]
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM {_TABLES}"
        f" WHERE runs.owner IS NULL AND blocks.key IN ({marks(keys)})",
        keys,
    )
    found: dict[tuple[bytes, bytes], list[BlockRow]] = {}
    for row in _sound(rows):
        found.setdefault((row.key, row.tokens), []).append(row)
    return found


def children(connection: sqlite3.Connection, parent: bytes) -> list[BlockRow]:
    """The most recent blocks behind `parent`."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM {_TABLES} WHERE runs.owner IS NULL AND blocks.parent = ?"
        " ORDER BY blocks.run DESC LIMIT ?",
        (parent, MAX_CHILDREN),
    )
    return list(_sound(rows))


def _sound(rows: Iterable[tuple[object, ...]]) -> Iterator[BlockRow]:
    for row in rows:
        match row:
            case (
                bytes() as key,
                bytes() as tokens,
                int() as position,
                str() as run,
                int() as size,
            ):
                if len(run) == 64 and not run.strip("0123456789abcdef") and position >= 0:
                    yield BlockRow(key, tokens, position, run, size)
