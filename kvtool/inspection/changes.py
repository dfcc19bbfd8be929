"""What a change of the cache would touch, or did."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kvtool.tiers.disk.entry import Entry


class Change(NamedTuple):
    """Runs, by key. bytes: of their files. kept: runs that were named as well and stay as they are."""

    keys: tuple[str, ...]
    tokens: int
    bytes: int
    kept: int = 0


def change_of(entries: Iterable[Entry], *, kept: int = 0) -> Change:
    entries = list(entries)
    return Change(
        keys=tuple(entry.key for entry in entries),
        tokens=sum(entry.num_tokens for entry in entries),
        bytes=sum(entry.num_bytes for entry in entries),
        kept=kept,
    )
