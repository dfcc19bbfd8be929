"""The errors a user can cause. Everything else is a bug and surfaces as an internal error.

`message` says what is wrong, the value and what is allowed; `hint` is the next command to try.
`kvtool.cli.app.main` is the one place that turns them into exit codes.
"""

from __future__ import annotations


class KVToolError(Exception):
    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ConfigError(KVToolError):
    """A wrong option or a combination that cannot work (the code Typer uses for usage errors)."""

    exit_code = 2


class ModelError(KVToolError):
    """A model that is missing, damaged or not supported."""

    exit_code = 3


class CacheError(KVToolError):
    """A damaged cache, or a request that can never fit into it."""

    exit_code = 4


class InputError(KVToolError):
    """A prompt, batch or trace that is missing, empty or malformed."""

    exit_code = 5


class VerificationError(KVToolError):
    """Cached and uncached results differ beyond the stated tolerance."""

    exit_code = 6
