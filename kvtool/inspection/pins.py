"""Pins: runs that stay when others make room. A pinned run holds all in front of it."""

from __future__ import annotations

from collections.abc import Iterable

from kvtool.inspection.changes import Change, change_of
from kvtool.inspection.kinship import with_heads
from kvtool.tiers.disk.catalog import Catalog


def pin(catalog: Catalog, keys: Iterable[str]) -> Change:
    """Pin runs and all in front of them; the runs that were not pinned before.

    Raises `CacheError` for more than may be pinned.
    """
    pinned = {entry.key for entry in catalog.entries() if entry.pinned}
    catalog.pin(keys)
    return change_of(e for e in catalog.entries() if e.pinned and e.key not in pinned)


def unpin(catalog: Catalog, keys: Iterable[str]) -> Change:
    """Let go of runs, and of what stands in front as far as no other pinned run needs it.

    A named run that another pinned run continues is kept.
    """
    entries = catalog.entries()
    named = set(keys)
    asked = with_heads(entries, (entry for entry in entries if entry.key in named))
    others = [entry for entry in entries if entry.pinned and entry.key not in asked]
    needed = with_heads(entries, others)
    freed = [e for e in entries if e.pinned and e.key in asked - needed]
    catalog.unpin(entry.key for entry in freed)
    return change_of(freed, kept=len(named & needed))


def find_keys(catalog: Catalog, prefixes: Iterable[str]) -> list[str]:
    """Whole keys by their beginnings, each once; raises `CacheError`."""
    return list(dict.fromkeys(catalog.find(prefix).key for prefix in prefixes))
