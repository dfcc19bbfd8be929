"""A disk that does not do what is asked: said once, in words that help."""

from __future__ import annotations

import errno
import logging
import shlex
import sqlite3
from pathlib import Path
from typing import NamedTuple

from kvtool.tiers.disk.schema import OtherVersion

_log = logging.getLogger(__name__)


class Trouble(NamedTuple):
    reason: str
    advice: str


_FULL = Trouble("the disk is full", "Free some space, or lower --cache-size.")
_READ_ONLY = Trouble("the folder is read-only", "Give --cache-dir a folder that can be written.")
_FORBIDDEN = Trouble("permission is denied", "Give --cache-dir a folder of your own.")
_LOCKED = Trouble("its index is locked by another process", "See who keeps it open.")
_BY_NUMBER = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EROFS: _READ_ONLY,
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
}
_BY_TEXT = {"full": _FULL, "readonly": _READ_ONLY, "locked": _LOCKED}


def trouble_of(error: OSError | sqlite3.Error, folder: Path) -> Trouble:
    """folder: of the cache, to name it in the advice."""
    if isinstance(error, OtherVersion):
        return Trouble(
            str(error), "Use the kvtool that made it, or give --cache-dir another folder."
        )
    if isinstance(error, sqlite3.Error):
        if is_damage(error):
            advice = f"{inspect_cache(folder, '--repair-index')} makes it anew."
            return Trouble("its index is damaged", advice)
        known = [trouble for text, trouble in _BY_TEXT.items() if text in str(error)]
        return known[0] if known else _unknown(f"its index cannot be used ({error})")
    if isinstance(error, TimeoutError):
        return _LOCKED
    return _BY_NUMBER.get(error.errno or 0) or _unknown(
        f"it cannot be read or written ({error.strerror or error})"
    )


def _unknown(reason: str) -> Trouble:
    return Trouble(reason, "Check the disk, or give --cache-dir another folder.")


def inspect_cache(folder: Path, *options: str) -> str:
    """The command, to be copied."""
    return shlex.join(["kvtool", "inspect-cache", str(folder), *options])


def unreadable(error: Exception) -> str:
    """Why a run's file does not give what it should, as a reason without a full stop."""
    if isinstance(error, FileNotFoundError):
        return "its file is gone"
    if isinstance(error, OSError):
        return f"its file cannot be read ({error.strerror or error})"
    return str(error)


def is_damage(error: sqlite3.Error) -> bool:
    """SQLite has no class of its own for "malformed" and "not a database"; the classes for what
    can pass (locked, full, read-only) are below `DatabaseError`."""
    is_other = "no such" in str(error) or "Could not decode" in str(error)
    return type(error) is sqlite3.DatabaseError or is_other


def is_passing(error: OSError) -> bool:
    """Whether the file may be all right: it is there, and could not be opened or read now."""
    return error.errno not in (errno.ENOENT, errno.ELOOP, None)


class Warnings:
    """Tells every kind of trouble once."""

    def __init__(self, folder: Path) -> None:
        self.count = 0
        self.last: str | None = None
        self._folder = folder
        self._said: set[str] = set()

    def add(self, trouble: Trouble) -> str:
        """The reason."""
        self.count += 1
        self.last = trouble.reason
        if trouble.reason not in self._said:
            self._said.add(trouble.reason)
            _log.warning(
                "The cache in %s cannot be used fully: %s. %s",
                self._folder,
                trouble.reason,
                trouble.advice,
            )
        return trouble.reason

    def damaged(self, run: str, reason: str) -> None:
        """A file that was removed; the first of them is told."""
        self.count += 1
        if "damaged" not in self._said:
            self._said.add("damaged")
            _log.warning(
                "Removed the damaged run %s from the cache in %s: %s. It is computed again; %s "
                "looks for others.",
                run,
                self._folder,
                reason,
                inspect_cache(self._folder, "--check"),
            )
