"""Records of the gate in a cache folder: `gates/<key>.json`, readable by their owner only."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kvtool.errors import CacheError
from kvtool.gate.record import GateRecord
from kvtool.gate.subject import Subject
from kvtool.tiers.disk.folder import CacheFolder

MAX_BYTES = 1 << 20  # of a record; ours have a few thousand


def read_record(folder: Path, subject: Subject) -> GateRecord | None:
    """None where there is none, or what is there cannot be read or is no record of the subject."""
    record = _read(CacheFolder(folder).gates / f"{subject.key}.json")
    return record if record is not None and record.subject == subject else None


def read_records(folder: Path) -> list[GateRecord]:
    """All of a folder, the newest first."""
    found = [_read(path) for path in sorted(CacheFolder(folder).gates.glob("*.json"))]
    records = [record for record in found if record is not None]
    return sorted(records, key=lambda record: record.created, reverse=True)


def make_folder(folder: Path) -> Path:
    """Where records are kept. Raises `CacheError` for a folder that is no cache or cannot be made;
    a measurement takes long, so ask before."""
    cache = CacheFolder(folder)
    with _told(folder):
        cache.create()
        cache.gates.mkdir(mode=0o700, exist_ok=True)
        if not os.access(cache.gates, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return cache.gates


def write_record(folder: Path, record: GateRecord) -> Path:
    """In place of an older one of the same subject. Raises `CacheError`."""
    path = make_folder(folder) / f"{record.subject.key}.json"
    with _told(folder):
        _replace(path, json.dumps(record.as_dict(), indent=1, allow_nan=False))
    return path


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CacheError(
            f"Records of the gate cannot be kept in {folder}: {error.strerror or error}.",
            hint="Name a folder that can be written.",
        ) from error


def _replace(path: Path, text: str) -> None:
    """Whole or not at all, with mode 0600 (mkstemp's)."""
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=".")
    try:
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)


def _read(path: Path) -> GateRecord | None:
    try:
        if path.stat().st_size > MAX_BYTES:
            return None
        return GateRecord.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
