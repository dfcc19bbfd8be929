"""Catalog: a cache folder for people, to be looked through, checked and changed."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kvtool.cache.backing import Run
from kvtool.cache.group import GroupSpec
from kvtool.errors import CacheError
from kvtool.tiers.disk import pins
from kvtool.tiers.disk.array_views import ArrayViews
from kvtool.tiers.disk.cells import check_cells
from kvtool.tiers.disk.check import check
from kvtool.tiers.disk.contents import read_contents
from kvtool.tiers.disk.entry import Damage, Entry, Repaired, RunContents, Totals
from kvtool.tiers.disk.entry_rows import read_entries, read_totals
from kvtool.tiers.disk.folder import CacheFolder
from kvtool.tiers.disk.index import Index
from kvtool.tiers.disk.notes import DEFAULT_CAP_BYTES, read_cap
from kvtool.tiers.disk.rebuild import folder_lock, index_state
from kvtool.tiers.disk.repair import repair
from kvtool.tiers.disk.rows import delete_named
from kvtool.tiers.disk.store import RunStore
from kvtool.tiers.disk.trouble import inspect_cache, trouble_of

Progress = Callable[[int, int], None]  # done, total

_HOLDS = "id IN (SELECT run FROM blocks WHERE {column} = ?)"
_NO_HEAD = "home > 0 AND parent NOT IN (SELECT key FROM blocks)"


class Catalog:
    """The runs of one cache folder; other processes may use it at the same time.

    Keys of runs are `Entry.key`; keys of blocks are bytes. Where the folder or its index does not
    do what is asked, every method raises `CacheError`.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._folder = index.folder

    @classmethod
    def open(cls, folder: Path, *, create: bool = False) -> Catalog:
        """Raises `CacheError`: no such folder (unless `create`), not a cache, another user's, an
        index that is damaged (see `repair.repair_index`) or of another format version."""
        cache = CacheFolder(folder)
        with _told(cache):
            if create:
                cache.create()
            cache.require()
            read_only = not os.access(folder, os.W_OK)
            if not read_only:
                with folder_lock(cache):
                    if index_state(cache, thorough=True) == "damaged":
                        raise sqlite3.DatabaseError("damaged")
            index = Index(cache, read_only=read_only)
            connection = index.connection()
            if read_only:
                check_cells(connection)
            return cls(index)

    @property
    def path(self) -> Path:
        return self._folder.path

    def entries(self) -> list[Entry]:
        """All runs, the most recently used first."""
        return self._read()

    def find(self, key_prefix: str) -> Entry:
        """The run whose key begins so; `CacheError` when there is none or more than one."""
        hint = f"{inspect_cache(self.path)} lists the keys of all runs."
        if not key_prefix:
            raise CacheError("The key of a run is empty.", hint=hint)
        pattern = f"{key_prefix.lower()}*" if key_prefix.isalnum() else ""
        found = self._read("name GLOB ?", pattern)
        if len(found) != 1:
            what = f"The keys of {len(found)} runs begin" if found else "No run's key begins"
            raise CacheError(f"{what} with {key_prefix!r} in {self.path}.", hint=hint)
        return found[0]

    def block(self, key: bytes) -> tuple[Entry, int] | None:
        """The run that holds a block, and the block's position in it."""
        for entry in self._read(_HOLDS.format(column="key"), key):
            return entry, entry.keys.index(key)
        return None

    def children(self, parent: bytes) -> list[tuple[Entry, int]]:
        """The blocks behind block `parent` (or behind a namespace's root)."""
        entries = self._read(_HOLDS.format(column="parent"), parent)
        return [(entry, (entry.parent, *entry.keys).index(parent)) for entry in entries]

    def roots(self) -> list[Entry]:
        """Runs that start a sequence."""
        return self._read("home = 0")

    def unreachable(self) -> list[Entry]:
        """Runs whose head is gone: no prefix hit can reach them; they are evicted by age."""
        return self._read(_NO_HEAD)

    def read(self, entry: Entry) -> RunContents:
        """Raises `Missing`; a damaged file is left where it is (`check` tells, `repair` removes)."""
        return read_contents(self._folder, entry.key)

    def pin(self, keys: Iterable[str]) -> int:
        """Keep these runs, and all in front of them, when others are evicted; bytes pinned now.

        `CacheError` when more than the allowed share of the cap would be pinned; see `pins`.
        """
        with self._change() as connection:
            return pins.pin(connection, list(keys), read_cap(connection), time.time())

    def unpin(self, keys: Iterable[str]) -> int:
        """How many runs were pinned and are not any more."""
        with self._change() as connection:
            return pins.unpin(connection, list(keys))

    def remove(self, keys: Iterable[str]) -> int:
        """Delete these runs; bytes freed."""
        with self._change() as connection:
            return delete_named(connection, self._folder, list(keys))

    def totals(self) -> Totals:
        with _told(self._folder):
            return read_totals(self._index.connection())

    def check(self, progress: Progress | None = None) -> list[Damage]:
        """Read everything: what is wrong, and what is foreign (`FOREIGN`). Changes nothing."""
        with _told(self._folder):
            return check(self._index, progress)

    def repair(self, progress: Progress | None = None) -> Repaired:
        """Remove what `check` would complain of and make the index say what the files say."""
        with _told(self._folder):
            return repair(self._index, progress)

    def put_run(
        self,
        fields: Mapping[str, object],
        groups: tuple[GroupSpec, ...],
        run: Run,
        kv: Sequence[npt.NDArray[np.uint8]],
        *,
        block_size: int,
    ) -> Entry:
        """Store a run that came from elsewhere; `kv` as in `RunContents`. The entry that holds its
        last block afterwards. `CacheError` with the reason when it was not stored."""
        with _told(self._folder):
            cap_bytes = read_cap(self._index.connection()) or DEFAULT_CAP_BYTES
            store = RunStore(
                self._index,
                cap_bytes=cap_bytes,
                failed=lambda error: trouble_of(error, self.path).reason,
            )
            views = ArrayViews(groups, block_size, kv)
            stored = store.put(run, fields, groups, block_size, views)
        found = self.block(run.keys[-1])
        if stored.reason is not None or found is None:
            raise CacheError(
                f"The run was not stored: {stored.reason or 'it was evicted'}.",
                hint="Raise --cache-size.",
            )
        return found[0]

    def close(self) -> None:
        self._index.close()

    def _read(self, condition: str = "TRUE", *values: object) -> list[Entry]:
        with _told(self._folder):
            return read_entries(self._index.connection(), condition, values)

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        with _told(self._folder), self._index.write() as connection:
            yield connection


@contextmanager
def _told(folder: CacheFolder) -> Iterator[None]:
    """What the disk or the index refuses, as an error for people."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        trouble = trouble_of(error, folder.path)
        raise CacheError(
            f"The cache in {folder.path} cannot be used: {trouble.reason}.", hint=trouble.advice
        ) from error
