"""Compares a cache folder with its index, and every file with itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator

import numpy as np

from kvtool.tiers.disk.entry import FOREIGN, Damage, Entry
from kvtool.tiers.disk.entry_rows import read_entries
from kvtool.tiers.disk.file_check import check_file
from kvtool.tiers.disk.folder import INDEX, RUNS, CacheFolder
from kvtool.tiers.disk.index import Index
from kvtool.tiers.disk.owner import is_running
from kvtool.tiers.disk.rows import is_published
from kvtool.tiers.disk.run_format import RunHead
from kvtool.tiers.disk.sweep import leftovers

Progress = Callable[[int, int], None]  # done, total


def check(index: Index, progress: Progress | None = None) -> list[Damage]:
    """What is wrong, and what is foreign. Other processes may store and evict meanwhile."""
    folder = index.folder
    damages = list(_stray(index.connection(), folder))
    entries = {entry.key: entry for entry in read_entries(index.connection())}
    names = sorted(folder.run_names() | entries.keys())
    for done, name in enumerate(names, 1):
        damages += _check_run(index, name, entries.get(name))
        if progress:
            progress(done, len(names))
    return damages


def _stray(connection: sqlite3.Connection, folder: CacheFolder) -> Iterator[Damage]:
    verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if verdict != "ok":
        yield Damage(INDEX, str(verdict))
    for name in leftovers(folder):
        yield Damage(f"{RUNS}/{name}", "left unfinished by a process that is gone")
    for name in folder.foreign_names():
        yield Damage(name, FOREIGN)
    for name, owner in connection.execute("SELECT name, owner FROM runs WHERE owner IS NOT NULL"):
        if not is_running(owner):
            yield Damage(INDEX, f"room reserved for {name} by a process that is gone")


def _check_run(index: Index, name: str, entry: Entry | None) -> list[Damage]:
    file = f"{RUNS}/{name}.safetensors"
    try:
        head, reasons = check_file(index.folder, name)
    except FileNotFoundError:
        gone = entry is None or not is_published(index.connection(), name)
        return [] if gone else [Damage(file, "the index names it, but it is not there")]
    if entry is None:
        if not is_published(index.connection(), name):
            reasons.append("the index does not know it")
    elif head is not None and not agrees(entry, head):
        reasons.append("the index says something else about it")
    return [Damage(file, reason) for reason in reasons]


def agrees(entry: Entry, head: RunHead) -> bool:
    """Whether the index says of a run what its file says."""
    run = head.run
    return (
        (entry.namespace, entry.parent, entry.keys, entry.home, entry.exact, entry.provenance)
        == (run.namespace, run.parent, run.keys, run.home, run.exact, run.provenance)
        and (entry.block_size, entry.num_bytes) == (head.block_size, head.file_bytes)
        and np.array_equal(entry.tokens, run.tokens)
    )
