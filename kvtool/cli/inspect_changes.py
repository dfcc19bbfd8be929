"""`--pin`, `--unpin` and `--prune`: say what would change, ask, change it, say what was done."""

from __future__ import annotations

import time

from kvtool.cli import output
from kvtool.cli.inspect_consent import ask
from kvtool.cli.inspect_request import InspectRequest
from kvtool.cli.inspect_text import count, short_key
from kvtool.cli.sizes import format_size
from kvtool.config import EngineConfig
from kvtool.inspection.changes import Change
from kvtool.inspection.pins import find_keys, pin, unpin
from kvtool.inspection.prune import prune_plan
from kvtool.tiers.disk.catalog import Catalog

SHOWN_KEYS = 10


def pin_runs(catalog: Catalog, request: InspectRequest, engine: EngineConfig) -> None:
    """Pin runs and what stands in front of them."""
    keys = find_keys(catalog, request.pin or ())
    what = f"pin {count(len(keys), 'run')} and what stands in front"
    ask(request, what)
    _report(request, "Pinned", pin(catalog, keys))


def unpin_runs(catalog: Catalog, request: InspectRequest, engine: EngineConfig) -> None:
    """Let go of runs, and of what no other pinned run needs."""
    keys = find_keys(catalog, request.unpin or ())
    what = f"unpin {count(len(keys), 'run')}"
    ask(request, what)
    _report(request, "Unpinned", unpin(catalog, keys))


def prune_runs(catalog: Catalog, request: InspectRequest, engine: EngineConfig) -> None:
    """Remove the runs that --prune names."""
    assert request.prune is not None
    plan = prune_plan(catalog, request.prune, time.time())
    if plan.keys:
        ask(request, f"remove {_size(plan)}: {_keys(plan)}")
        catalog.remove(plan.keys)
    _report(request, "Removed", plan)


def _report(request: InspectRequest, did: str, done: Change) -> None:
    if request.format == "json":
        output.write_json({"action": request.action.strip("-"), **done._asdict()})
        return
    output.write(f"{did} {_size(done)}{': ' * bool(done.keys)}{_keys(done)}\n")
    if done.kept:
        stay = "stays" if done.kept == 1 else "stay"
        output.talk(
            f"{count(done.kept, 'run')} {stay} as before: pinned, or needed by one that stays."
        )


def _size(change: Change) -> str:
    return f"{count(len(change.keys), 'run')} ({format_size(change.bytes)})"


def _keys(change: Change) -> str:
    shown = ", ".join(short_key(key) for key in change.keys[:SHOWN_KEYS])
    rest = len(change.keys) - SHOWN_KEYS
    return f"{shown} and {rest:,} more" if rest > 0 else shown
