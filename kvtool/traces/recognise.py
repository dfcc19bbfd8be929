"""Which format a file is in, told by its first records."""

from __future__ import annotations

from typing import NamedTuple

from kvtool.errors import InputError
from kvtool.traces.formats import FORMATS, format_named
from kvtool.traces.trace_file import NOT_UTF8, Head, TraceFile
from kvtool.traces.trace_format import Format

_TO_UTF8 = "Convert it: iconv -f LATIN1 -t UTF-8 (or from what it is in), or unpack it."
_FORMATS = (
    'A line {"messages": [...]} for each request is enough (openai). --input-format NAME reads the '
    f"file as one of: {', '.join(FORMATS)}."
)


class Recognised(NamedTuple):
    """format, and why: what in the file says so."""

    format: Format
    why: str


def recognise(file: TraceFile, name: str | None = None) -> Recognised:
    """By content, unless `name` says (`--input-format`). Raises `InputError` for an empty file and
    for one that is of no known format, `ConfigError` for an unknown name."""
    chosen = None if name is None else format_named(name)
    head = file.head()
    if chosen is not None:
        return Recognised(chosen, "--input-format says so")
    for known in map(format_named, FORMATS):
        if (why := known.recognise(head)) is not None:
            return Recognised(known, why)
    raise InputError(
        f"{file.name} is in no trace format that kvtool knows: {_seen(head)}.",
        hint=_TO_UTF8 if NOT_UTF8 in head.bad else _FORMATS,
    )


def _seen(head: Head) -> str:
    if head.first:
        return f"its first record has {', '.join(sorted(map(str, head.first))[:12])}"
    start = head.lines[0] if head.lines else ""
    if start and not start.startswith(("{", "[")):
        return f"it starts with {start[:60]!r}, which is no JSON object"
    return head.bad or "it has no record with a field"
