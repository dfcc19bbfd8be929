"""docs/cli.md, made from the app: `python -m kvtool.cli.docs > docs/cli.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any

from kvtool.cli.batch_input import CONTENT, FIELDS, IGNORED
from kvtool.cli.cache_report import FRAGMENTATION, HIT_RATE
from kvtool.cli.commands import COMMANDS, load
from kvtool.cli.docs_text import (
    BATCH,
    CONVERSATIONS,
    DTYPES_AND_SIZES,
    EVENTS,
    HEAD,
    JSON_DOCUMENT,
    PREFILL,
    SCHEDULER,
    SHIFT,
    STORAGE,
)
from kvtool.cli.dtypes import ALIASES
from kvtool.cli.inspect_docs import INSPECT_CACHE
from kvtool.cli.interrupt import INTERRUPTED
from kvtool.cli.simulate_docs import SIMULATE_AGENT
from kvtool.cli.sizes import UNITS
from kvtool.config import SchedulerConfig
from kvtool.errors import CacheError, ConfigError, InputError, ModelError, VerificationError
from kvtool.gate.cases import SITUATIONS
from kvtool.runtime.cache_folder import ENVIRONMENT

ERRORS = (ConfigError, ModelError, CacheError, InputError, VerificationError)


def page() -> Iterator[str]:
    yield HEAD
    yield _exit_codes()
    yield DTYPES_AND_SIZES.format(
        binary=_code(unit for unit in UNITS if "i" in unit),
        decimal=_code(unit for unit in UNITS if "i" not in unit and unit != "B"),
        aliases=", ".join(f"`{alias}` = `{name}`" for alias, name in ALIASES.items()),
    )
    for name in COMMANDS:
        yield from _command(load(name))
    yield JSON_DOCUMENT.format(hit_rate=HIT_RATE, fragmentation=FRAGMENTATION)
    yield PREFILL
    yield STORAGE.format(environment=ENVIRONMENT)
    yield SHIFT.format(situations=", ".join(SITUATIONS))
    yield INSPECT_CACHE
    yield SIMULATE_AGENT
    yield EVENTS
    yield CONVERSATIONS
    yield BATCH.format(
        content=" or ".join(f"`{name}`" for name in CONTENT),
        fields=_code(FIELDS),
        ignored=_code(IGNORED),
    )
    yield SCHEDULER
    yield _scheduler_defaults()


def _exit_codes() -> str:
    rows = [
        ("0", "Success, or the reader of stdout went away."),
        (
            "1",
            "An internal error: please report it. Or output that cannot be written: a full disk.",
        ),
    ]
    rows += [(str(error.exit_code), error.__doc__ or "") for error in ERRORS]
    rows.append((str(INTERRUPTED), "Ctrl-C."))
    return _table(("exit code", "meaning"), rows)


def _command(command: Any) -> Iterator[str]:
    yield f"## kvtool {command.name}\n"
    yield f"{command.help}\n"
    panels: dict[str, list[tuple[str, str, str]]] = {}
    for parameter in command.params:
        panel = parameter.rich_help_panel or "Options"
        panels.setdefault(panel, []).append(_row(parameter))
    for panel, rows in panels.items():
        yield _table((panel, "", "default"), rows)
    examples = [
        line.strip() for line in (command.epilog or "").splitlines() if line.startswith("  ")
    ]
    yield "\n".join(["```sh", *examples, "```", ""])


def _row(parameter: Any) -> tuple[str, str, str]:
    is_option = parameter.param_type_name == "option"
    names = parameter.metavar
    if is_option:
        names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    metavar = parameter.metavar if is_option and not parameter.is_flag else ""
    choices = metavar.split("|") if metavar and "|" in metavar else []
    usage = f"`{names}`" if choices or not metavar else f"`{names} {metavar}`"
    listed = f"{_code(choices)}. " if choices else ""
    return usage, listed + parameter.help, _default(parameter)


def _default(parameter: Any) -> str:
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    if parameter.secondary_opts:  # --mtp/--no-mtp: the name that holds, as the help page has it
        names = parameter.opts if parameter.default else parameter.secondary_opts
        return f"`{names[0].lstrip('-')}`"
    empty = parameter.default is None or parameter.default is False or parameter.default == ()
    return "" if empty else f"`{parameter.default}`"


def _scheduler_defaults() -> str:
    rows = [
        (f"`{f.name}`", f"`{f.default}`")
        for f in fields(SchedulerConfig)
        if f.default is not MISSING
    ]
    return _table(("setting", "default"), rows)


def _code(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _table(head: tuple[str, ...], rows: list[Any]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write("\n".join(page()))
