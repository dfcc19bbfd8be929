"""The folder that keeps KV between runs."""

from __future__ import annotations

import os
from pathlib import Path

from kvtool.errors import ConfigError

ENVIRONMENT = "KVTOOL_CACHE_DIR"


def check_outside(folder: Path, option: str, path: str | None) -> None:
    """`ConfigError` for an output in the cache folder, which may hold nothing but the cache."""
    if path is None:
        return
    try:
        where = Path(os.path.realpath(os.path.dirname(path) or "."))
    except (OSError, ValueError):  # no path at all: told by whoever opens it
        return
    if where == folder or folder in where.parents:
        raise ConfigError(
            f"{option} {path!r} lies in the cache folder {str(folder)!r}, which holds the cache alone.",
            hint="Name a file somewhere else.",
        )


def cache_folder(given: str | None = None) -> Path:
    """Its real path: of `given`, else of the environment variable, else of the user's cache.

    It need not exist; `~` is the home folder. Raises `ConfigError` for what cannot be a path, or is
    no UTF-8, which is all that SQLite opens.
    """
    named = given or os.environ.get(ENVIRONMENT)
    if named is None or named == "":
        import platformdirs

        return Path(platformdirs.user_cache_dir("kvtool")).resolve() / "kv"
    try:
        named.encode()
        return Path(named).expanduser().resolve()
    except (OSError, ValueError, RuntimeError) as error:  # a NUL byte, a circle of links
        raise ConfigError(f"{named!r} cannot be a cache folder: {error}.") from None
