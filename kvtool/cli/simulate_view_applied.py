"""What `--apply` changed in the trace that it wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType

from kvtool.cli.inspect_text import count
from kvtool.cli.printable import printable
from kvtool.cli.simulate_drawing import note, section

SHOWN_LINES = 16

Row = Mapping[str, Any]


def applied_section(document: Row) -> RenderableType | None:
    """With the diff of the first request that changed."""
    applied = document["applied"]
    if applied is None:
        return None
    if not applied["advice"]:
        return section(
            "Applied: nothing",
            note("no advice rewrites this trace; the file has its requests as they are"),
        )
    changed = f"{applied['changed_requests']:,} of {count(applied['requests'], 'request')} changed"
    lines = (note(printable(line), 2, "") for line in _first_diff(applied["diff"]))
    return section(f"Applied: {', '.join(applied['advice'])}; {changed}", *lines)


def _first_diff(diff: str) -> Iterator[str]:
    """A diff begins with its two names; that of the next request with two more."""
    lines = diff.splitlines()
    starts = [number for number, line in enumerate(lines) if _begins(line)]
    first = lines[: starts[1]] if len(starts) > 1 else lines
    yield from first[:SHOWN_LINES]
    if len(lines) > SHOWN_LINES or len(starts) > 1:
        yield "… (--format json has more of it: applied.diff)"


def _begins(line: str) -> bool:
    return line.startswith("--- ") and line.endswith(" as recorded")
