"""The text of stored runs, read from the index."""

from __future__ import annotations

import sqlite3
from collections.abc import Hashable, Sequence, Set
from itertools import groupby
from operator import itemgetter

import numpy as np

from kvtool.cache.backing import Run
from kvtool.cache.block_hash import DIGEST_BYTES
from kvtool.tiers.disk.lookup import MAX_KEYS
from kvtool.tiers.disk.use import marks
from kvtool.tiers.text.listing import Changes, Listed

_EXACT = "FROM runs WHERE owner IS NULL AND exact = 1 AND namespace = ? AND block_size = ?"
_BLOCKS = """
SELECT runs.id, runs.used, runs.parent, runs.home, blocks.position, blocks.key, blocks.tokens
FROM runs JOIN blocks ON blocks.run = runs.id
WHERE runs.owner IS NULL AND runs.id IN ({marks})
ORDER BY runs.id, blocks.position"""


def text_changes(
    connection: sqlite3.Connection,
    namespace: bytes,
    block_size: int,
    known: Set[Hashable],
    state: object,
) -> Changes:
    """See `ListsText`; handles are ids of rows, which are never used twice in one index."""
    now = _state(connection)
    if now == state:
        return Changes(state, set(), [])
    rows = connection.execute(f"SELECT id {_EXACT}", (namespace, block_size)).fetchall()
    present = {row for (row,) in rows}
    if not _is_same_index(now, state):
        return Changes(now, known, _read(connection, namespace, block_size, sorted(present)))
    return Changes(
        now, known - present, _read(connection, namespace, block_size, sorted(present - known))
    )


def _state(connection: sqlite3.Connection) -> tuple[object, int, int]:
    """What others have written to the index since it was opened, and what we have."""
    others: int = connection.execute("PRAGMA data_version").fetchone()[0]
    return connection, others, connection.total_changes


def _is_same_index(now: tuple[object, int, int], state: object) -> bool:
    """A new connection may be to another file, whose ids mean other runs."""
    return state is None or (isinstance(state, tuple) and state[0] is now[0])


def _read(
    connection: sqlite3.Connection, namespace: bytes, block_size: int, rows: Sequence[int]
) -> list[Listed]:
    found: list[Listed] = []
    for start in range(0, len(rows), MAX_KEYS):
        chunk = rows[start : start + MAX_KEYS]
        blocks = connection.execute(_BLOCKS.format(marks=marks(chunk)), chunk)
        for (row, used, parent, home), group in groupby(blocks, key=itemgetter(0, 1, 2, 3)):
            positions, keys, tokens = zip(*(block[4:] for block in group))
            if _is_sound(positions, keys, tokens, 4 * block_size):
                text = np.frombuffer(b"".join(tokens), dtype="<i4").astype(np.int32)
                found.append(Listed(row, Run(namespace, parent, keys, text, home), used))
    return found


def _is_sound(
    positions: Sequence[object], keys: Sequence[object], tokens: Sequence[object], width: int
) -> bool:
    """Whether these are the blocks of a run: an index that others can write is not trusted."""
    sizes = [len(block) if isinstance(block, bytes) else 0 for block in tokens]
    return (
        all(isinstance(key, bytes) and len(key) == DIGEST_BYTES for key in keys)
        and list(positions) == list(range(len(keys)))
        and all(size == width for size in sizes[:-1])
        and 0 < sizes[-1] <= width
        and sizes[-1] % 4 == 0
    )
