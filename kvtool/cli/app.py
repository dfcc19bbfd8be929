"""The command line: `kvtool COMMAND …`. Each command is one file; this one lists them."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from kvtool import __version__
from kvtool.cli import boundary, generate, interrupt, output, size_calc
from kvtool.cli.help import PanelCommand, examples_epilog

app = typer.Typer(
    name="kvtool",
    help="Run a language model and see what its KV cache does.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# One line a command: its function, and the examples of its help page.
COMMANDS = (
    (generate.generate, generate.EXAMPLES),
    (size_calc.size_calc, size_calc.EXAMPLES),
)
for _command, _examples in COMMANDS:
    app.command(cls=PanelCommand, epilog=examples_epilog(_examples))(_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"kvtool {__version__}")
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
        print(context.get_help())
        raise typer.Exit(2)


def run(args: Sequence[str]) -> int:
    """One command line to its exit code; writes to stdout and stderr, raises nothing."""
    return boundary.run(
        lambda args: app(list(args), prog_name="kvtool", standalone_mode=False), args
    )


def main() -> None:
    interrupt.install()
    logging.getLogger("kvtool").addHandler(output.WarningHandler(logging.WARNING))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # text and JSON, whatever the locale
    sys.exit(run(sys.argv[1:]))
