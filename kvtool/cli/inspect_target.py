"""Where `inspect-cache` looks: a cache folder, or a remote store."""

from __future__ import annotations

from contextlib import closing

from kvtool.cli import inspect_request
from kvtool.cli.inspect_request import InspectRequest
from kvtool.config import EngineConfig
from kvtool.errors import CacheError, ConfigError
from kvtool.runtime.cache_folder import cache_folder, check_outside
from kvtool.tiers.disk.catalog import Catalog

# Actions for a folder whose index may be past opening, or may not exist yet.
NEED_NO_CATALOG = ("--repair-index", "--import", "--gate", "--rope-check")


def run_action(
    action: str, target: str | None, request: InspectRequest, engine: EngineConfig
) -> None:
    """Raises `CacheError` for a folder that is missing, damaged or no cache."""
    if action == "--rope-check" and target is not None:
        raise ConfigError(f"--rope-check looks at a model and at no cache; drop {target}.")
    if target is not None and engine.cache_dir is not None:
        raise ConfigError(f"DIR is {target!r} and --cache-dir is {engine.cache_dir!r}; give one.")
    target = engine.cache_dir if target is None else target
    if target is not None and "://" in target:
        from kvtool.cli.inspect_store import look_into_store

        look_into_store(action, target, request, engine)
        return
    folder = cache_folder(target)
    check_outside(folder, "--plot", request.plot)
    check_outside(folder, "--export", request.export)
    if action == "--repair-index" and not folder.exists():
        raise CacheError(f"There is no cache in {folder}.", hint="kvtool prefill makes one.")
    if action in NEED_NO_CATALOG:
        inspect_request.run(action, folder, request, engine)
        return
    with closing(Catalog.open(folder)) as catalog:
        inspect_request.run(action, catalog, request, engine)
