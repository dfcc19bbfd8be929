"""DiskTier: the tier that outlives the process."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from pathlib import Path
from typing import TypeVar

from kvtool.cache.backing import Run, StoredBlock
from kvtool.cache.block_pool import Tokens
from kvtool.cache.group import GroupSpec
from kvtool.tiers.disk.finder import Finder, Place
from kvtool.tiers.disk.folder import CacheFolder
from kvtool.tiers.disk.index import Index
from kvtool.tiers.disk.integrity import check_index
from kvtool.tiers.disk.loader import Unreadable, load
from kvtool.tiers.disk.notes import read_note, write_note
from kvtool.tiers.disk.opening import open_index
from kvtool.tiers.disk.rebuild import was_healed
from kvtool.tiers.disk.rows import delete_named, remove_blocks
from kvtool.tiers.disk.store import RunStore
from kvtool.tiers.disk.text_rows import text_changes
from kvtool.tiers.disk.trouble import Warnings, is_passing, trouble_of
from kvtool.tiers.disk.use import touch
from kvtool.tiers.memory import BlockViews
from kvtool.tiers.text.listing import Changes
from kvtool.tiers.tier import Missing, Part, Stored

T = TypeVar("T")


class DiskTier:
    """Runs of blocks in a folder that any number of processes share (a `Tier`).

    cap_bytes: what all run files together may take, whoever wrote them. durable: survive a power
    cut (fsync); without it a cut may cost entries, never a wrong answer.
    Raises `CacheError` for a folder that is another user's, holds something else than a cache, or
    whose index is a symlink. A disk that is full, read-only or broken turns the tier off, or makes
    it read-only, with one warning.
    """

    name = "disk"

    def __init__(
        self,
        folder: Path,
        groups: tuple[GroupSpec, ...],
        block_size: int,
        *,
        cap_bytes: int,
        durable: bool = False,
    ) -> None:
        self.cap_bytes = cap_bytes
        self.removed: Callable[[Sequence[bytes]], None] | None = None  # told what is evicted
        self._groups = groups
        self._block_size = block_size
        self._folder = CacheFolder(folder)
        self._warnings = Warnings(folder)
        self._fields: dict[bytes, Mapping[str, object]] = {}
        self._avoid: set[str] = set()  # runs that could not be read and are still there
        self._index = open_index(self._folder, self._warnings, cap_bytes=cap_bytes, durable=durable)
        if self._index is not None:
            self._finder = Finder(self._index, self._forget, self._failed, self._avoid)
            self._store = RunStore(
                self._index,
                cap_bytes=cap_bytes,
                durable=durable,
                evicted=self._evicted,
                failed=self._failed,
            )

    @property
    def num_failures(self) -> int:
        """Times that the disk or the index did not do what was asked."""
        return self._warnings.count

    def describe(self, namespace: bytes, fields: Mapping[str, object]) -> None:
        self._fields[namespace] = dict(fields)

    def contains(self, keys: Sequence[bytes], tokens: Tokens) -> list[object]:
        return self._attempt(lambda _: self._finder.contains(keys, tokens), [])

    def extend(self, parent: bytes, tokens: Tokens) -> Part | None:
        return self._attempt(lambda _: self._finder.extend(parent, tokens), None)

    def text_changes(self, namespace: bytes, known: Set[Hashable], state: object) -> Changes:
        """See `ListsText`."""

        def changes(index: Index) -> Changes:
            return text_changes(index.connection(), namespace, self._block_size, known, state)

        return self._attempt(changes, Changes(state, set(), []))

    def get(
        self, blocks: Sequence[StoredBlock], views: BlockViews, arrived: Callable[[int], None]
    ) -> None:
        """A run that is damaged is dropped from the index and its file removed."""
        try:
            load(blocks, self._groups, self._block_size, views, arrived)
        except Unreadable as failure:
            self._forget(failure.run, failure.cause)
            raise Missing(str(failure)) from failure
        runs = {block.place.run.name for block in blocks if isinstance(block.place, Place)}
        self._change(lambda connection: touch(connection, sorted(runs), time.time()), None)

    def put(self, run: Run, views: BlockViews) -> Stored:
        if self._index is None or self._index.read_only:
            return Stored(0, 0, self._warnings.last)
        fields = self._fields.get(run.namespace, {})
        return self._store.put(run, fields, self._groups, self._block_size, views)

    def remove(self, keys: Sequence[bytes]) -> int:
        """Whole runs are forgotten, so also what stands beside these blocks."""
        return self._change(lambda connection: remove_blocks(connection, self._folder, keys), 0)

    def remember(self, name: str, figures: Mapping[str, object]) -> None:
        """Keep a small document for other processes (measured rates)."""
        self._change(lambda connection: write_note(connection, name, figures), None)

    def recall(self, name: str) -> dict[str, object] | None:
        return self._attempt(lambda index: read_note(index.connection(), name), None)

    def check_integrity(self) -> None:
        self._change(lambda connection: check_index(connection, self._folder, self.cap_bytes), None)

    def close(self) -> None:
        if self._index is not None:
            self._index.close()

    def _evicted(self, keys: Sequence[bytes]) -> None:
        if self.removed is not None:
            self.removed(keys)

    def _forget(self, run: str, cause: Exception) -> None:
        """A run that cannot be read: not to be promised again, and gone if it will never be."""
        self._avoid.add(run)
        if isinstance(cause, OSError) and is_passing(cause):
            self._failed(cause)
            return
        if not isinstance(cause, OSError):
            self._warnings.damaged(run, str(cause))
        freed = self._change(lambda index: delete_named(index, self._folder, [run]), None)
        if freed is not None:
            self._avoid.discard(run)

    def _change(self, action: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """`action` in a transaction, where the folder can be written."""

        def change(index: Index) -> T:
            if index.read_only:
                return otherwise
            with index.write() as connection:
                return action(connection)

        return self._attempt(change, otherwise)

    def _attempt(self, action: Callable[[Index], T], otherwise: T) -> T:
        if self._index is None:
            return otherwise
        try:
            return action(self._index)
        except (OSError, sqlite3.Error) as error:
            self._failed(error)
            return otherwise

    def _failed(self, error: OSError | sqlite3.Error) -> str:
        """Say so once; the reason. A damaged index is moved aside and made anew at the next use."""
        if was_healed(self._folder, error):
            self._warnings.count += 1
            return "its index was damaged"
        return self._warnings.add(trouble_of(error, self._folder.path))
