"""Help pages: options grouped by topic, examples at the end, plain text on every terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand

from kvtool.cli.values import read_directly

DEFAULT_PANEL = "Options"


class PanelCommand(TyperCommand):
    """A command whose options are listed under the `rich_help_panel` they were declared with."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        for parameter in self.params:
            read_directly(parameter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                panel = getattr(parameter, "rich_help_panel", None) or DEFAULT_PANEL
                panels.setdefault(panel, []).append(record)
        for panel, records in panels.items():
            with formatter.section(panel):
                formatter.write_dl(records)


def examples_epilog(examples: Iterable[str]) -> str:
    """The examples as they are typed, not re-wrapped (`\\b` is Click's mark for that)."""
    return "Examples:\n\n\b\n" + "\n".join(f"  {line}" for line in examples)
