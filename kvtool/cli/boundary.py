"""The one place where exceptions become messages and exit codes.

A user's mistake is one line `error: …` on stderr, one `hint: …`, and its exit code; with
`--format json` an error object on stdout as well. Anything else is our bug: exit code 1.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NoReturn

import typer

from kvtool.cli import output
from kvtool.cli.commands import COMMANDS
from kvtool.cli.interrupt import INTERRUPTED
from kvtool.errors import ConfigError, KVToolError

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class Interrupted(KVToolError):
    exit_code = INTERRUPTED


def run(app: Callable[[Sequence[str]], object], args: Sequence[str]) -> int:
    """Runs the command line `args` and returns the exit code; raises nothing."""
    try:
        code = app(args)
        if code == INTERRUPTED:  # Typer's answer to KeyboardInterrupt
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except (output.OutputClosed, SystemExit):  # the latter is Typer's answer to a closed pipe
        return _leave_closed_pipe()
    except KeyboardInterrupt:
        return _report(Interrupted("interrupted"), args)
    except KVToolError as error:
        return _report(error, args)
    except typer.TyperException as error:
        return _report(_usage_error(error, args), args)
    except Exception as error:
        return _report(unforeseen(error), args)


def fail_after_report(error: KVToolError) -> NoReturn:
    """End with the error's code where the result is already on stdout, so that it stays alone."""
    _talk(error)
    raise typer.Exit(error.exit_code)


def _talk(error: KVToolError) -> None:
    output.talk(f"error: {_one_line(error.message)}")
    if error.hint:
        output.talk(f"hint: {_one_line(error.hint)}")


def _report(error: KVToolError, args: Sequence[str]) -> int:
    _talk(error)
    if _wants_json(args):
        try:
            output.write_json({"error": output.error_document(error)})
        except (output.OutputClosed, output.OutputFailed):
            _leave_closed_pipe()
    return error.exit_code


def _usage_error(error: typer.TyperException, args: Sequence[str]) -> KVToolError:
    context = getattr(error, "ctx", None)
    named = f"kvtool {args[0]}" if args and args[0] in COMMANDS else "kvtool"
    command = context.command_path if context else named
    return ConfigError(error.format_message(), hint=f"{command} --help")


def unforeseen(error: Exception) -> KVToolError:
    """A full disk may show anywhere; everything else that has no type of ours is a bug."""
    if isinstance(error, OSError) and error.errno in DISK_FULL:
        return output.OutputFailed(f"Cannot write: {error.strerror}.", hint="Make room first.")
    if os.environ.get("KVTOOL_DEBUG") == "1":
        traceback.print_exc()
    return KVToolError(
        f"internal error: {type(error).__name__}: {error}; please report it.",
        hint="run the same command with KVTOOL_DEBUG=1 and add the traceback to the report.",
    )


def _leave_closed_pipe() -> int:
    """Nothing more can be written; keep the interpreter from trying when it shuts down."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    return 0


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _wants_json(args: Sequence[str]) -> bool:
    return "--format=json" in args or ("--format", "json") in pairwise(args)
