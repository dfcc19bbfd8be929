"""How options are declared: under a heading of the help page, with a parser for their value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from kvtool.cli.output import FORMATS
from kvtool.cli.parsers import choice, integer

SAMPLING, MODEL, SCHEDULER = "Sampling", "Model", "Scheduler"
CACHE, STORAGE, OUTPUT = "KV cache", "KV storage", "Output"
SHIFT = "Moved text (--reuse shift)"


def option(
    panel: str, *names: str, help: str, parser: Callable[[Any], Any] | None = None, **settings: Any
) -> Any:
    """An option under the heading `panel`; `parser` raises `ValueError` for what it refuses."""
    return typer.Option(*names, help=help, rich_help_panel=panel, parser=parser, **settings)


def one_of(panel: str, name: str, names: tuple[str, ...], help: str, **settings: Any) -> Any:
    metavar = "|".join(names)
    return option(panel, name, help=help, parser=choice(names), metavar=metavar, **settings)


def count(panel: str, name: str, help: str, *, minimum: int = 1, **settings: Any) -> Any:
    return option(panel, name, help=help, parser=integer(minimum), metavar="N", **settings)


FormatOption = Annotated[
    str, one_of(OUTPUT, "--format", FORMATS, "json: one document on stdout and nothing else.")
]
