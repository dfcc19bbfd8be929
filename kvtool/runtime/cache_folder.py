"""The folder that keeps KV between runs."""

from __future__ import annotations

import os
from pathlib import Path

from kvtool.errors import ConfigError

ENVIRONMENT = "KVTOOL_CACHE_DIR"


def cache_folder(given: str | None = None) -> Path:
    """Its real path: of `given`, else of the environment variable, else of the user's cache.

    It need not exist. Raises `ConfigError` for what cannot be a path.
    """
    named = given or os.environ.get(ENVIRONMENT)
    if named is None or named == "":
        import platformdirs

        return Path(platformdirs.user_cache_dir("kvtool")).resolve() / "kv"
    try:
        return Path(named).resolve()
    except (OSError, ValueError, RuntimeError) as error:  # a NUL byte, a circle of links
        raise ConfigError(f"{named!r} cannot be a cache folder: {error}.") from None
