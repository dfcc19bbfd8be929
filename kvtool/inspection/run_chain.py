"""The stored runs that together hold a sequence from its first token on."""

from __future__ import annotations

from typing import NamedTuple

from kvtool.errors import CacheError
from kvtool.tiers.disk.catalog import Catalog
from kvtool.tiers.disk.entry import Entry


class Link(NamedTuple):
    """The first `num_blocks` blocks of a run: behind them the next link goes on."""

    entry: Entry
    num_blocks: int


def chain_to(catalog: Catalog, entry: Entry) -> list[Link]:
    """From the run that starts the sequence up to `entry`.

    Raises `CacheError` when a part in front of it is not stored.
    """
    links = [Link(entry, entry.num_blocks)]
    while (first := links[0].entry).home > 0:
        found = catalog.block(first.parent)
        if found is None or _end(*found) != first.home:
            raise CacheError(
                f"Run {entry.key:.12} cannot be used alone: of the {entry.home} tokens in front of "
                f"it, those up to position {first.home} are not stored.",
                hint="Compute the prompt again: kvtool prefill",
            )
        above, position = found
        links.insert(0, Link(above, position + 1))
    return links


def _end(entry: Entry, position: int) -> int:
    """The position behind block `position` of a run."""
    return entry.home + (position + 1) * entry.block_size
