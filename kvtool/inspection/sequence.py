"""A stored sequence: a run and the runs in front of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kvtool.cache.block_pool import Tokens
from kvtool.tiers.disk.catalog import Catalog
from kvtool.tiers.disk.entry import Entry


class StoredSequence(NamedTuple):
    """start: position of the first token, more than 0 where the head is not stored. tokens: int32,
    up to the end of the last run. runs: in order; all but the last may go on elsewhere as well."""

    start: int
    tokens: Tokens
    runs: tuple[Entry, ...]


def stored_sequence(catalog: Catalog, entry: Entry) -> StoredSequence:
    runs, parts = [entry], [entry.tokens]
    while runs[0].home > 0:
        above = _above(catalog, runs[0])
        if above is None:
            break
        runs.insert(0, above[0])
        parts.insert(0, above[0].tokens[: above[1] * entry.block_size])
    return StoredSequence(runs[0].home, np.concatenate(parts), tuple(runs))


def _above(catalog: Catalog, entry: Entry) -> tuple[Entry, int] | None:
    """The run in front, and how many of its blocks; positions must fall, whatever an index says."""
    found = catalog.block(entry.parent)
    if found is None:
        return None
    above, number = found
    fits = above.home + (number + 1) * entry.block_size == entry.home
    return (above, number + 1) if fits else None
