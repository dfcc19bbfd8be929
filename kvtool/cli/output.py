"""Where results go: data on stdout, talk on stderr, both plain text off a terminal.

`--format json` prints one document and nothing else; the human view is made from the same object.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from kvtool.cli.printable import printable
from kvtool.errors import KVToolError

FORMATS = ("human", "json")


class OutputClosed(Exception):
    """The reader of stdout has gone away (`kvtool … | head`); nobody is left to tell."""


class OutputFailed(KVToolError):
    """A disk that is full, or a device that fails."""


def write(text: str) -> None:
    """Text to stdout, at once: a reader at the other end of a pipe sees it as it is made."""
    if sys.stdout is None:
        raise OutputClosed
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise OutputClosed from error
    except OSError as error:
        raise OutputFailed(f"Cannot write to stdout: {error.strerror or error}.") from None


def write_json(document: object) -> None:
    """One line of `strict_json`. Dataclasses become objects."""
    write(strict_json(_plain(document)) + "\n")


def strict_json(document: object, indent: int | None = None) -> str:
    """JSON that every reader takes: no NaN, no infinity, and a broken name as its escapes."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=indent)
    if any("\ud800" <= character <= "\udfff" for character in text):
        return json.dumps(document, allow_nan=False, indent=indent)
    return text


def error_document(error: KVToolError) -> dict[str, object]:
    return {
        "type": type(error).__name__,
        "message": error.message,
        "hint": error.hint,
        "exit_code": error.exit_code,
    }


def talk(line: str) -> None:
    """One line to stderr, if anybody listens; nothing in it can touch the terminal."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):  # a message that cannot be shown changes no result
            print(printable(line), file=sys.stderr, flush=True)


def warn(line: str) -> None:
    talk(f"warning: {line}")


def is_fancy_stderr() -> bool:
    """Whether a spinner and colour may go to stderr."""
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return sys.stderr is not None and sys.stderr.isatty() and not plain


def talk_table(title: str, rows: Iterable[tuple[str, str]]) -> None:
    """Two columns on stderr: aligned text, with bold labels on a terminal."""
    rows = list(rows)
    if is_fancy_stderr():
        _rich_table(title, rows)
        return
    width = max(len(label) for label, _ in rows)
    talk(title)
    for label, value in rows:
        talk(f"  {label:<{width}}  {value}")


def _rich_table(title: str, rows: list[tuple[str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2))
    for label, value in rows:
        table.add_row(Text(label, style="bold"), Text(printable(value)))
    Console(stderr=True).print(table)


def _plain(value: Any) -> Any:
    """Dataclasses as dicts without their absent (`None`-by-default) optional fields."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        present = {f.name: getattr(value, f.name) for f in fields}
        optional = {f.name for f in fields if f.default is None}
        return {k: _plain(v) for k, v in present.items() if v is not None or k not in optional}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
