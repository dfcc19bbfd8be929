"""Text about stored KV for people: tables, ages, and stored text that cannot touch the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from io import StringIO

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from kvtool.cli.printable import printable

PLAIN_WIDTH = 110
KEY_CHARACTERS = 12  # of a key or digest: enough to tell runs apart at a glance

_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
_SHORT = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


def to_text(*drawings: RenderableType) -> str:
    """As it goes to stdout: with colour on a terminal, plain anywhere else.

    A narrow terminal wraps lines: a table that is cut to fit has no keys to copy.
    """
    terminal = sys.stdout is not None and sys.stdout.isatty()
    buffer = StringIO()
    console = Console(
        file=buffer,
        force_terminal=terminal or None,
        soft_wrap=True,
    )
    console.width = max(console.width, PLAIN_WIDTH) if terminal else PLAIN_WIDTH
    for drawing in drawings:
        console.print(drawing)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def table(header: Mapping[str, str], rows: Iterable[Iterable[str]]) -> Table:
    """header: names and alignment (left or right) of the columns."""
    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name, justify in header.items():
        drawn.add_column(name, justify="right" if justify == "right" else "left", no_wrap=True)
    for row in rows:
        drawn.add_row(*(Text(cell) for cell in row))
    return drawn


def shortened(text: str, width: int) -> str:
    """At most `width` characters: the beginning and the end."""
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def short_key(key: object) -> str:
    return printable(str(key))[:KEY_CHARACTERS]


def age(seconds: float) -> str:
    """The largest unit that fits; a clock that went back makes nothing older than now."""
    for unit, length in _UNITS:
        if seconds >= length:
            return f"{int(seconds // length)} {unit} ago"
    return "now"


def count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + "s" * (number != 1)


def namespace_line(fields: Mapping[str, object]) -> str:
    """Model, dtype, block size, and what else is not as usual."""
    number = f"{fields['number']}: " if "number" in fields else ""
    if fields.get("architecture") is None:
        return f"{number}a model that nobody described"
    architecture, _, _ = printable(str(fields["architecture"])).partition(" ")
    compute, stored = (str(fields.get(name)) for name in ("compute_dtype", "kv_dtype"))
    dtype = _SHORT.get(compute, printable(compute))
    parts = [
        f"{architecture} {short_key(fields.get('weights'))}",
        dtype if compute == stored else f"{dtype}, KV {_SHORT.get(stored, printable(stored))}",
        f"blocks of {fields.get('block_size')}",
    ]
    if fields.get("adapter") is not None:
        parts.append(f"adapter {short_key(fields['adapter'])}")
    if fields.get("salt") is not None:
        parts.append("salt set")
    if fields.get("implementation") is not None:
        parts.append("deterministic")
    return number + ", ".join(parts)
