"""The commands: where each one is, and the line that `kvtool --help` shows for it.

A command is imported when it is called; neither the help page nor the other commands wait for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from kvtool.cli.help import PanelCommand, examples_epilog


class Entry(NamedTuple):
    target: str  # module:function; the module has EXAMPLES for the end of the help page
    summary: str  # the first sentence of the function's docstring


COMMANDS = {
    "generate": Entry("kvtool.cli.generate:generate", "Answer a prompt."),
    "prefill": Entry("kvtool.cli.prefill:prefill", "Compute the KV of files and keep it."),
    "simulate-agent": Entry(
        "kvtool.cli.simulate_agent:simulate_agent",
        "Replay a trace of requests: what hits, why the rest misses, what to change.",
    ),
    "inspect-cache": Entry(
        "kvtool.cli.inspect_cache:inspect_cache",
        "What is stored, and why a prompt hits or misses.",
    ),
    "size-calc": Entry(
        "kvtool.cli.size_calc:size_calc",
        "How many bytes the KV cache of a model takes, and what fits into a memory.",
    ),
}

# --help is False unless given: for its usual None, Typer would import pydantic to validate it.
CONTEXT = {"help_option_names": ["-h", "--help"], "default_map": {"help": False}}


def load(name: str) -> TyperCommand:
    """The command with its options and examples."""
    module, function = COMMANDS[name].target.split(":")
    loaded = import_module(module)
    app = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=CONTEXT)
    epilog = examples_epilog(loaded.EXAMPLES)
    app.command(name, cls=PanelCommand, epilog=epilog)(getattr(loaded, function))
    command = get_command(app)
    assert isinstance(command, TyperCommand)
    return command


class CommandGroup(TyperGroup):
    """All commands by name and summary."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, entry in COMMANDS.items():
            self.add_command(_Unloaded(name, help=entry.summary))


class _Unloaded(TyperCommand):
    """Stands in the list of commands; a call goes to the command itself."""

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **extra: Any) -> Any:
        assert self.name is not None
        return load(self.name).make_context(info_name, args, *rest, **extra)
