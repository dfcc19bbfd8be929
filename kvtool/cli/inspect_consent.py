"""Asking before something is changed."""

from __future__ import annotations

import sys

from kvtool.cli.inspect_request import InspectRequest
from kvtool.errors import ConfigError


def ask(request: InspectRequest, what: str) -> None:
    """Returns with --yes, or after a yes on the terminal; else raises `ConfigError`."""
    if request.yes:
        return
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr)):
        raise ConfigError(
            f"This would {what}; nobody can be asked here, and nothing was changed.",
            hint="Add --yes to do it.",
        )
    sys.stderr.write(f"This will {what}. Go on? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfigError("Not confirmed; nothing was changed.")
