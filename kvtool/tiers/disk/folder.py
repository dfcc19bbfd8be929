"""The cache folder: what may lie in it, who may read it, how files in it are made and opened.

    index.sqlite (-wal, -shm, -journal)     what is stored; can be made anew from the files
    index.lock                              held while an index is made
    index.damaged.sqlite                    the last index that had to be moved aside
    runs/<name>.safetensors                 published runs
    runs/<name>.<process>.<number>.tmp      runs being written
    gates/                                  how well moved text does (`kvtool.gate.records`)

Names are made by us, of hex digits and numbers only; nothing that a file says becomes a path.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from kvtool.errors import CacheError

INDEX, LOCK, DAMAGED_INDEX, RUNS, GATES = (
    "index.sqlite",
    "index.lock",
    "index.damaged.sqlite",
    "runs",
    "gates",
)
INDEX_COMPANIONS = tuple(INDEX + suffix for suffix in ("-wal", "-shm", "-journal"))
_OWN = {INDEX, LOCK, DAMAGED_INDEX, RUNS, GATES, *INDEX_COMPANIONS}

_RUN = re.compile(r"([0-9a-f]{64})\.safetensors")
_TEMP = re.compile(r"[0-9a-f]{64}\.([0-9]+-[0-9]+)\.[0-9]+\.tmp")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe must not stop us
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class CacheFolder:
    """Paths of one cache folder. Check it before use (`check`)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs = path / RUNS
        self.gates = path / GATES
        self.index = path / INDEX
        self.lock = path / LOCK

    def create(self) -> None:
        """Make what is missing, readable by its owner only; raises `OSError` or `CacheError`."""
        if not self.path.exists():
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.check()
        self.runs.mkdir(mode=0o700, exist_ok=True)
        self._refuse_foreign(self.runs, stat.S_ISDIR)
        for folder in (self.path, self.runs):
            if stat.S_IMODE(folder.stat().st_mode) != 0o700:
                folder.chmod(0o700)

    def check(self) -> None:
        """`CacheError` unless this is a folder of ours that holds a cache, or nothing.

        What lies beside a cache is ignored.
        """
        self._refuse_foreign(self.path.resolve(), stat.S_ISDIR)
        names = os.listdir(self.path)
        for name in sorted(_OWN.intersection(names)):
            is_folder = name in (RUNS, GATES)
            self._refuse_foreign(self.path / name, stat.S_ISDIR if is_folder else stat.S_ISREG)
        strays = sorted(set(names) - _OWN)
        if strays and not self._is_cache(names):
            raise CacheError(
                f"{self.path} is not a kvtool cache: it holds {strays[0]!r}.",
                hint="Give --cache-dir a new or an empty folder.",
            )

    def require(self) -> None:
        """`CacheError` unless there is a cache already."""
        if not self.path.is_dir():
            raise CacheError(f"There is no cache in {self.path}.", hint=self._how_to_make())
        self.check()
        if not self.runs.is_dir():
            raise CacheError(
                f"{self.path} is not a kvtool cache: it holds no runs.", hint=self._how_to_make()
            )

    def _is_cache(self, names: Sequence[str]) -> bool:
        """Many a folder of others holds one that is called runs: that alone is not enough."""
        return RUNS in names and (INDEX in names or GATES in names or bool(self.run_names()))

    def _how_to_make(self) -> str:
        return f"kvtool prefill FILE --cache-dir {shlex.quote(str(self.path))} makes one."

    def _refuse_foreign(self, path: Path, is_right: Callable[[int], bool]) -> None:
        try:
            status = os.lstat(path)
        except FileNotFoundError:  # the index's companions come and go
            return
        if status.st_uid != os.geteuid():
            raise CacheError(
                f"{path} belongs to another user (id {status.st_uid}).",
                hint="Give --cache-dir a folder of your own.",
            )
        if not is_right(status.st_mode):
            raise CacheError(
                f"{path} is not a plain {'folder' if is_right is stat.S_ISDIR else 'file'}.",
                hint="Remove it, or give --cache-dir another folder.",
            )

    def run_path(self, name: str) -> Path:
        assert _RUN.fullmatch(f"{name}.safetensors"), name
        return self.runs / f"{name}.safetensors"

    def temp_path(self, name: str, owner: str, number: int) -> Path:
        path = self.runs / f"{name}.{owner}.{number}.tmp"
        assert _TEMP.fullmatch(path.name), path.name
        return path

    def remove_run(self, name: str) -> None:
        """Of a name that an index gave us; there may be no such file."""
        if _RUN.fullmatch(f"{name}.safetensors"):
            self.run_path(name).unlink(missing_ok=True)

    def remove_temp(self, name: str, owner: str, number: int) -> None:
        if _TEMP.fullmatch(f"{name}.{owner}.{number}.tmp"):
            self.temp_path(name, owner, number).unlink(missing_ok=True)

    def open_run(self, name: str) -> int:
        """A descriptor for reading; `OSError` where there is no such plain file."""
        if not _RUN.fullmatch(f"{name}.safetensors"):
            raise FileNotFoundError(f"{name!r} is no name of a run")
        fd = os.open(self.run_path(name), _READ)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise FileNotFoundError(f"{name} is not a plain file")
        return fd

    def make_private(self, name: str) -> None:
        fd = self.open_run(name)
        try:
            os.fchmod(fd, 0o600)
        finally:
            os.close(fd)

    def run_names(self) -> set[str]:
        """Of all published files."""
        return {match[1] for match in map(_RUN.fullmatch, os.listdir(self.runs)) if match}

    def temp_owners(self) -> dict[str, str]:
        """Unfinished files: name → the process that writes or wrote it."""
        names = os.listdir(self.runs)
        return {match[0]: match[1] for match in map(_TEMP.fullmatch, names) if match}

    def foreign_names(self) -> list[str]:
        """What lies beside the cache or among its runs and is not of it, from the folder on."""
        beside = set(os.listdir(self.path)) - _OWN
        among = [name for name in os.listdir(self.runs) if not _is_of_a_run(name)]
        return sorted(beside) + sorted(f"{RUNS}/{name}" for name in among)


def _is_of_a_run(name: str) -> bool:
    return bool(_RUN.fullmatch(name) or _TEMP.fullmatch(name))


def create_private(path: Path) -> int:
    """A new file that only its owner can read, whatever the umask; never through a link."""
    fd = os.open(path, _CREATE, 0o600)
    os.fchmod(fd, 0o600)
    return fd


def sync_folder(path: Path) -> None:
    """So that names in it survive a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
