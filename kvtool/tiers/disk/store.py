"""Writing runs: reserve room, write a file nobody can find, publish it.

A process that is killed on the way leaves an unfinished file, or a finished one that the index
does not name yet; `sweep` removes the one and takes in the other.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from kvtool.cache.backing import Run
from kvtool.cache.block_hash import token_bytes
from kvtool.cache.group import GroupSpec
from kvtool.tiers.disk.cap import make_room
from kvtool.tiers.disk.entry import bytes_text
from kvtool.tiers.disk.folder import create_private, sync_folder
from kvtool.tiers.disk.index import Index
from kvtool.tiers.disk.lookup import stored
from kvtool.tiers.disk.owner import current_owner
from kvtool.tiers.disk.rows import describe, insert_run, is_published
from kvtool.tiers.disk.run_writer import PreparedRun, prepare, slice_run, write_file
from kvtool.tiers.disk.sweep import drop_abandoned
from kvtool.tiers.disk.use import next_use, touch, touch_parents
from kvtool.tiers.memory import BlockViews
from kvtool.tiers.tier import Stored

MAX_RUN_BLOCKS = 128  # of one file: what is evicted, checked and named together
MAX_RUN_SHARE = 1 / 2  # of the cap, so that a small cache keeps at least the front of a prompt


class Reservation(NamedTuple):
    row: int
    temp: Path


class NotStored(Exception):
    """The text is the reason, a sentence without a full stop."""


class RunStore:
    """Writes runs into one cache folder.

    evicted: told the keys of blocks that had to go. failed: told what the disk or the index
    refused; its answer is the reason for people.
    """

    def __init__(
        self,
        index: Index,
        *,
        cap_bytes: int,
        durable: bool = False,
        evicted: Callable[[Sequence[bytes]], None] = lambda keys: None,
        failed: Callable[[OSError | sqlite3.Error], str],
    ) -> None:
        self._index = index
        self._failed = failed
        self._evicted = evicted
        self._folder = index.folder
        self._cap_bytes = cap_bytes
        self._durable = durable

    def put(
        self,
        run: Run,
        fields: Mapping[str, object],
        groups: Sequence[GroupSpec],
        block_size: int,
        views: BlockViews,
    ) -> Stored:
        """Keep the blocks of `run` that are not there yet; the first are tried first."""
        num_blocks = num_bytes = 0
        reason = None
        most = self._most_blocks(groups, block_size)
        try:
            for start, stop in self._missing_spans(run, block_size, most):
                part = slice_run(run, start, stop, block_size)
                prepared = prepare(part, fields, groups, block_size, views, start)
                if self._write(prepared, fields, block_size):
                    num_blocks += stop - start
                    num_bytes += prepared.num_bytes
        except NotStored as refusal:
            reason = str(refusal)
        except (OSError, sqlite3.Error) as error:
            reason = self._failed(error)
        return Stored(num_blocks, num_bytes, reason)

    def _most_blocks(self, groups: Sequence[GroupSpec], block_size: int) -> int:
        """Of one file."""
        num_bytes = sum(group.block_bytes(block_size) for group in groups)
        return max(1, min(MAX_RUN_BLOCKS, int(MAX_RUN_SHARE * self._cap_bytes) // num_bytes))

    def _missing_spans(self, run: Run, block_size: int, most: int) -> Iterator[tuple[int, int]]:
        """Neighbouring blocks that are not stored, at most `most` of them."""
        blocks = _blocks(run, block_size)
        for start in range(0, len(blocks), most):
            chunk = blocks[start : start + most]
            there = stored(self._index.connection(), chunk)
            is_missing = [block not in there for block in chunk]
            for missing, same in groupby(range(len(chunk)), is_missing.__getitem__):
                if missing:
                    span = list(same)
                    yield start + span[0], start + span[-1] + 1

    def _write(self, prepared: PreparedRun, fields: Mapping[str, object], block_size: int) -> bool:
        """Whether the file is new; raises `NotStored`."""
        reservation = self._reserve(prepared, fields, block_size)
        try:
            fd = create_private(reservation.temp)
            try:
                write_file(fd, prepared)
                if self._durable:
                    os.fsync(fd)
            finally:
                os.close(fd)
            return self._publish(prepared, reservation, block_size)
        except BaseException:
            self._give_up(prepared.name, reservation)
            raise

    def _reserve(
        self, prepared: PreparedRun, fields: Mapping[str, object], block_size: int
    ) -> Reservation:
        size, run, now = prepared.num_bytes, prepared.run, time.time()
        if size > self._cap_bytes:
            raise NotStored(
                f"a run of {bytes_text(size)} is larger than the cache, "
                f"{bytes_text(self._cap_bytes)}"
            )
        owner = current_owner()
        with self._index.write() as connection:
            drop_abandoned(connection, self._folder)
            use = next_use(connection)
            num_parents = touch_parents(connection, run.parent, use, now)
            # A tail whose head is gone takes free room, and evicts nothing for itself.
            protected = use if num_parents or run.home == 0 else 0
            evicted = make_room(
                connection, self._folder, size, self._cap_bytes, now, protected=protected
            )
            if evicted is None:
                raise NotStored(f"no room for {bytes_text(size)} beside what it continues")
            describe(connection, run.namespace, fields)
            row = insert_run(connection, prepared.name, run, block_size, size, now, owner)
        if evicted:
            self._evicted(evicted)
        return Reservation(row, self._folder.temp_path(prepared.name, owner, row))

    def _publish(self, prepared: PreparedRun, reservation: Reservation, block_size: int) -> bool:
        """False: others stored all of it meanwhile."""
        with self._index.write() as connection:
            blocks = _blocks(prepared.run, block_size)
            is_there = len(stored(connection, blocks)) == len(set(blocks))
            change = "DELETE FROM runs" if is_there else "UPDATE runs SET owner = NULL"
            changed = connection.execute(f"{change} WHERE id = ?", (reservation.row,))
            if is_there:
                reservation.temp.unlink(missing_ok=True)
                return False
            if changed.rowcount != 1:
                raise NotStored("others took this process for dead")
            os.rename(reservation.temp, self._folder.run_path(prepared.name))
            if self._durable:
                sync_folder(self._folder.runs)
            touch(connection, [prepared.name], time.time(), hits=0)
            return True

    def _give_up(self, name: str, reservation: Reservation) -> None:
        """What cannot be undone now is swept later."""
        with suppress(OSError):
            reservation.temp.unlink(missing_ok=True)
        with suppress(OSError, sqlite3.Error), self._index.write() as connection:
            connection.execute("DELETE FROM runs WHERE id = ?", (reservation.row,))
            if not is_published(connection, name):
                self._folder.remove_run(name)


def _blocks(run: Run, block_size: int) -> list[tuple[bytes, bytes]]:
    """Key and tokens of each."""
    starts = range(0, len(run.tokens), block_size)
    tokens = (token_bytes(run.tokens[start : start + block_size]) for start in starts)
    return list(zip(run.keys, tokens, strict=True))
