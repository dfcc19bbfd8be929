"""Which runs continue which."""

from __future__ import annotations

from collections.abc import Iterable

from kvtool.tiers.disk.entry import Entry


def with_tails(entries: Iterable[Entry], head: Entry) -> set[str]:
    """Keys of the run and of all that continue it, directly or not."""
    found, blocks = {head.key}, set(head.keys)
    for entry in sorted(entries, key=lambda entry: entry.home):
        if entry.parent in blocks:
            found.add(entry.key)
            blocks.update(entry.keys)
    return found


def with_heads(entries: Iterable[Entry], tails: Iterable[Entry]) -> set[str]:
    """Keys of the runs and of all in front of them."""
    owner = {block: entry for entry in entries for block in entry.keys}
    found: set[str] = set()
    for tail in tails:
        run: Entry | None = tail
        while run is not None and run.key not in found:
            found.add(run.key)
            run = owner.get(run.parent)
    return found
