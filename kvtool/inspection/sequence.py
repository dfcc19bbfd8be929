"""A stored sequence: a run and the runs in front of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kvtool.cache.block_pool import Tokens
from kvtool.inspection.run_chain import links_to
from kvtool.tiers.disk.catalog import Catalog
from kvtool.tiers.disk.entry import Entry


class StoredSequence(NamedTuple):
    """start: position of the first token, more than 0 where the head is not stored. tokens: int32,
    up to the end of the last run. runs: in order; all but the last may go on elsewhere as well."""

    start: int
    tokens: Tokens
    runs: tuple[Entry, ...]


def stored_sequence(catalog: Catalog, entry: Entry) -> StoredSequence:
    links = links_to(catalog, entry)
    parts = [link.entry.tokens[: link.num_blocks * entry.block_size] for link in links]
    runs = tuple(link.entry for link in links)
    return StoredSequence(runs[0].home, np.concatenate(parts), runs)
