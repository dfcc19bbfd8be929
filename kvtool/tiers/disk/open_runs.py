"""Run files kept open from the moment a block of theirs is promised until it is read."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from kvtool.tiers.disk.folder import CacheFolder
from kvtool.tiers.disk.header import Damaged
from kvtool.tiers.disk.run_format import RunHead
from kvtool.tiers.disk.run_head import read_head

MAX_OPEN = 128  # descriptors; of further files the name is kept, they may be gone when read


class OpenRun:
    """A run file. Its bytes stay readable while this lives and `is_open`, also once evicted."""

    def __init__(self, folder: CacheFolder, name: str) -> None:
        self.name = name
        self._folder = folder
        self._lock = threading.Lock()
        self._users = 0
        self._keep = False
        self._fd: int | None = None
        self._head: RunHead | None = None

    @property
    def is_open(self) -> bool:
        return self._fd is not None

    def open(self, num_bytes: int, *, keep: bool) -> None:
        """Look whether the file is there at its full length; `Damaged` or `OSError` if not."""
        fd = self._folder.open_run(self.name)
        size = os.fstat(fd).st_size
        if keep and size == num_bytes:
            self._fd, self._keep = fd, True
            return
        os.close(fd)
        if size != num_bytes:
            raise Damaged(f"the file has {size} bytes instead of {num_bytes}")

    @contextmanager
    def reading(self) -> Iterator[tuple[int, RunHead]]:
        """Descriptor and verified head; raises `Damaged` or `OSError`."""
        with self._lock:
            if self._fd is None:
                self._fd = self._folder.open_run(self.name)
            self._users += 1
            fd = self._fd
        try:
            if self._head is None:
                self._head = read_head(fd, self.name)
            yield fd, self._head
        finally:
            with self._lock:
                self._users -= 1
                if not self._keep and self._users == 0:
                    self._close()

    def _close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __del__(self) -> None:
        self._close()


class OpenRuns:
    """The run files of one tier that somebody holds a place in."""

    def __init__(self, folder: CacheFolder) -> None:
        self._folder = folder
        self._runs: weakref.WeakValueDictionary[str, OpenRun] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()

    def open(self, name: str, num_bytes: int) -> OpenRun:
        """Raises `Damaged` or `OSError` where the file is not there, whole. One that somebody holds a
        place in is not looked at again."""
        with self._lock:
            run = self._runs.get(name)
            if run is None:
                run = OpenRun(self._folder, name)
                run.open(num_bytes, keep=len(self._runs) < MAX_OPEN)
                self._runs[name] = run
            return run
