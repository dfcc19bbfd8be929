"""The command line: `kvtool COMMAND …`, from the arguments of the process to its exit code."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from kvtool import __version__
from kvtool.cli import boundary, interrupt, output
from kvtool.cli.commands import CONTEXT, CommandGroup

app = typer.Typer(
    name="kvtool",
    cls=CommandGroup,
    help="Run a language model and see what its KV cache does.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=CONTEXT,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        output.write(f"kvtool {__version__}\n")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        output.write(f"{context.get_help()}\n")
        raise typer.Exit(2)


def run(args: Sequence[str]) -> int:
    """One command line to its exit code; writes to stdout and stderr, raises nothing."""
    return boundary.run(
        lambda args: app(list(args), prog_name="kvtool", standalone_mode=False), args
    )


def main() -> NoReturn:
    """The whole process: it ends here."""
    interrupt.install()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # text and JSON, whatever the locale
    interrupt.leave(run(sys.argv[1:]))
