"""Bars, curves and numbers of the summary of a simulation."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

PLAIN_WIDTH = 118
BAR_WIDTH = 20
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = "▁▂▃▄▅▆▇█"


def to_text(*drawings: RenderableType) -> str:
    """As it goes to stdout: with colour on a terminal, plain anywhere else."""
    terminal = sys.stdout is not None and sys.stdout.isatty()
    buffer = StringIO()
    console = Console(file=buffer, force_terminal=terminal or None, highlight=False)
    console.width = max(console.width, 80) if terminal else PLAIN_WIDTH
    for drawing in drawings:
        console.print(drawing)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def table(header: Mapping[str, str], rows: Iterable[Iterable[RenderableType]] = ()) -> Table:
    """header: names and alignment of the columns: left, right, or text, which wraps."""
    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name, kind in header.items():
        wraps = kind == "text"
        style = "dim" if wraps else ""
        drawn.add_column(
            f"  {name}" if not drawn.columns else name,
            justify="right" if kind == "right" else "left",
            no_wrap=not wraps,
            overflow="fold",
            style=style,
        )
    for first, *others in rows:
        drawn.add_row(_indented(first), *others)
    return drawn


def _indented(cell: RenderableType) -> RenderableType:
    return Text("  ").append(cell) if isinstance(cell, (str, Text)) else cell


def section(title: str, *parts: RenderableType) -> RenderableType:
    return Padding(Group(Text(title, style="bold"), *parts), (1, 0, 0, 0))


def note(text: str, depth: int = 1, style: str = "dim") -> RenderableType:
    """Wrapped behind its indentation."""
    return Padding(Text(text, style=style), (0, 0, 0, 2 * depth))


def bar(share: float | None, style: str = "cyan") -> Text:
    """A share of 1, to an eighth of a character."""
    eighths = round(8 * BAR_WIDTH * min(1.0, max(0.0, share or 0.0)))
    if share and not eighths:
        eighths = 1
    full, rest = divmod(eighths, 8)
    drawn = "█" * full + (_EIGHTHS[rest] if rest else "")
    return Text(f"{drawn:<{BAR_WIDTH}}", style=style)


def spark(values: Sequence[float], top: float) -> Text:
    """A character each, `top` being the highest."""
    levels = [min(7, int(8 * value / top)) if top else 0 for value in values]
    return Text("".join(_LEVELS[level] for level in levels), style="cyan")


def percent(share: float | None) -> str:
    return "n/a" if share is None else f"{100 * share:.1f} %"


def number(value: float | None) -> str:
    if value is None:
        return "n/a"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def seconds(value: float) -> str:
    if value < 0.9995:
        return f"{1000 * value:.3g} ms"
    return f"{value:,.1f} s" if value < 600 else f"{value / 60:,.0f} min"


def listed(items: Iterable[str], limit: int) -> str:
    names = list(items)
    more = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
