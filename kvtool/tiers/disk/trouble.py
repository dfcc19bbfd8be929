"""A disk that does not do what is asked: said once, in words that help."""

from __future__ import annotations

import errno
import logging
import sqlite3
from typing import NamedTuple

_log = logging.getLogger(__name__)


class Trouble(NamedTuple):
    reason: str
    advice: str


_FULL = Trouble("the disk is full", "Free some space, or lower --cache-size.")
_READ_ONLY = Trouble("the folder is read-only", "Give --cache-dir a folder that can be written.")
_FORBIDDEN = Trouble("permission is denied", "Give --cache-dir a folder of your own.")
_LOCKED = Trouble("its index is locked by another process", "See who keeps it open.")
_DAMAGED = Trouble("its index is damaged", "See kvtool inspect-cache --repair-index.")
_BY_NUMBER = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EROFS: _READ_ONLY,
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
}
_BY_TEXT = {"full": _FULL, "readonly": _READ_ONLY, "locked": _LOCKED}


def trouble_of(error: OSError | sqlite3.Error) -> Trouble:
    if isinstance(error, sqlite3.Error):
        if is_damage(error):
            return _DAMAGED
        known = [trouble for text, trouble in _BY_TEXT.items() if text in str(error)]
        return known[0] if known else _unknown(f"its index cannot be used, {error}")
    if isinstance(error, TimeoutError):
        return _LOCKED
    return _BY_NUMBER.get(error.errno or 0) or _unknown(
        f"the system reports {error.strerror or error}"
    )


def _unknown(reason: str) -> Trouble:
    return Trouble(reason, "Check the disk, or give --cache-dir another folder.")


def is_damage(error: sqlite3.Error) -> bool:
    """SQLite has no class of its own for "malformed" and "not a database"; the classes for what
    can pass (locked, full, read-only) are below `DatabaseError`."""
    return type(error) is sqlite3.DatabaseError or "no such" in str(error)


def is_passing(error: OSError) -> bool:
    """Whether the file may be all right: it is there, and could not be opened or read now."""
    return error.errno not in (errno.ENOENT, errno.ELOOP, None)


class Warnings:
    """Tells every kind of trouble once."""

    def __init__(self, folder: object) -> None:
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
                "The cache in %s is not used where it cannot be: %s. %s",
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
                "Removed the damaged run %s from the cache in %s: %s. It is computed again; look "
                "for others with kvtool inspect-cache --check.",
                run,
                self._folder,
                reason,
            )
