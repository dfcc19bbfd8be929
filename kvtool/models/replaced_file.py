"""A new file in the place of an old one of its kind, whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from safetensors import SafetensorError, safe_open

from kvtool.errors import ConfigError


@contextmanager
def replaced_file(path: Path, kind: str) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of `path` at the end; only its owner may read it.

    Raises `ConfigError` where `path` is something else than a safetensors file of this `format`
    (or an empty file), or cannot be written.
    """
    try:
        _check_replaceable(path, kind)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                os.replace(file.name, path)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(file.name)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error


def _check_replaceable(path: Path, kind: str) -> None:
    if not path.exists():
        return
    if not path.is_file():
        raise ConfigError(f"{path} is not a file.", hint="Name a new file.")
    if path.stat().st_size and _format(path) != kind:
        raise ConfigError(
            f"{path} exists and is no earlier export; it is left as it is.", hint="Name a new file."
        )


def _format(path: Path) -> str | None:
    try:
        with safe_open(path, framework="np") as file:
            metadata: dict[str, str] = file.metadata() or {}
            return metadata.get("format")
    except SafetensorError:
        return None
