"""The stored runs that together hold a sequence."""

from __future__ import annotations

from typing import NamedTuple

from kvtool.errors import CacheError
from kvtool.tiers.disk.catalog import Catalog
from kvtool.tiers.disk.entry import Entry


class Link(NamedTuple):
    """The first `num_blocks` blocks of a run: behind them the next link goes on."""

    entry: Entry
    num_blocks: int


def links_to(catalog: Catalog, entry: Entry) -> list[Link]:
    """From as far in front of `entry` as is stored up to it. Positions must fall, whatever an
    index says."""
    links = [Link(entry, entry.num_blocks)]
    while (first := links[0].entry).home > 0:
        found = catalog.block(first.parent)
        if found is None or _end(*found) != first.home:
            break
        above, position = found
        links.insert(0, Link(above, position + 1))
    return links


def chain_to(catalog: Catalog, entry: Entry) -> list[Link]:
    """From the run that starts the sequence up to `entry`.

    Raises `CacheError` when a part in front of it is not stored.
    """
    links = links_to(catalog, entry)
    start = links[0].entry.home
    if start > 0:
        raise CacheError(
            f"Run {entry.key:.12} cannot be used alone: of the {entry.home} tokens in front of "
            f"it, those up to position {start} are not stored.",
            hint="Compute the prompt again: kvtool prefill",
        )
    return links


def _end(entry: Entry, position: int) -> int:
    """The position behind block `position` of a run."""
    return entry.home + (position + 1) * entry.block_size
