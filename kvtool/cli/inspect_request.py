"""What `inspect-cache` is asked to do: one action, and what belongs to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from kvtool.errors import ConfigError
from kvtool.names import lookup

OVERVIEW = "overview"

# Each takes (catalog or folder, request, engine) and writes its result.
ACTIONS = {
    OVERVIEW: "kvtool.cli.inspect_overview:show_overview",
    "--tree": "kvtool.cli.inspect_tree:show_tree",
    "--why": "kvtool.cli.inspect_why:show_why",
    "--diff": "kvtool.cli.inspect_diff:show_diff",
    "--check": "kvtool.cli.inspect_check:show_check",
    "--stats": "kvtool.cli.inspect_statistics:show_statistics",
    "--gate": "kvtool.cli.inspect_gate:measure_gate",
    "--rope-check": "kvtool.cli.inspect_rope:check_rope",
    "--export": "kvtool.cli.inspect_exchange:export_run",
    "--import": "kvtool.cli.inspect_exchange:import_run",
    "--repair-index": "kvtool.cli.inspect_repair:repair",
    "--pin": "kvtool.cli.inspect_changes:pin_runs",
    "--unpin": "kvtool.cli.inspect_changes:unpin_runs",
    "--prune": "kvtool.cli.inspect_changes:prune_runs",
}
ASKS_WHY = ("--file", "--messages")  # a prompt, wherever it comes from, asks why

# Options that mean something to some actions only.
BELONGS = {
    "--show-text": ("--tree", "--diff"),
    "--system": ("--why", "--diff"),
    "--raw": ("--why", "--diff"),
    "--key": ("--stats", "--export"),
    "--plot": ("--stats",),
    **dict.fromkeys(("--repair", "--donor", "--min-run"), ("--gate",)),
    "--reuse-scheme": ("--gate", "--why"),
    **dict.fromkeys(("--gate-kl", "--gate-top1"), ("--gate",)),
    "--yes": ("--import", "--repair-index", "--pin", "--unpin", "--prune"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectRequest:
    """The options by name."""

    tree: bool = False
    why: str | None = None
    file: Sequence[str] | None = None
    messages: str | None = None
    diff: tuple[str, str] | None = None
    check: bool = False
    stats: bool = False
    gate: str | None = None
    rope_check: str | None = None
    export: str | None = None
    import_: str | None = None
    repair_index: bool = False
    pin: Sequence[str] | None = None
    unpin: Sequence[str] | None = None
    prune: str | None = None
    show_text: bool = False
    system: str | None = None
    raw: bool = False
    key: str | None = None
    plot: str | None = None
    reuse_scheme: str | None = None
    repair: str | None = None
    donor: str | None = None
    min_run: int | None = None
    gate_kl: float | None = None
    gate_top1: float | None = None
    yes: bool = False
    format: str = "human"

    @property
    def action(self) -> str:
        """A key of `ACTIONS`. Raises `ConfigError` for several, or for what belongs to none."""
        given = [_option(field.name) for field in fields(self) if self._is_given(field.name)]
        actions = {"--why" if name in ASKS_WHY else name: name for name in given}
        asked = [name for name in ACTIONS if name in actions]
        if len(asked) > 1:
            named = " and ".join(actions[name] for name in asked)
            raise ConfigError(f"{named} exclude each other; give one.")
        action = asked[0] if asked else OVERVIEW
        for name, owners in BELONGS.items():
            if name in given and action not in owners:
                raise ConfigError(f"{name} goes with {' or '.join(owners)}.")
        return action

    def _is_given(self, name: str) -> bool:
        value = getattr(self, name)
        return value is not None and value is not False and value not in ([], ())


def _option(field: str) -> str:
    return f"--{field.strip('_').replace('_', '-')}"


def run(action: str, *args: object) -> None:
    lookup(ACTIONS, action, "action")(*args)
