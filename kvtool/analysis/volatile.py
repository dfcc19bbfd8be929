"""Text that is another one every time: clocks, ids, counters."""

from __future__ import annotations

import re
from typing import NamedTuple

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2})?(?:[.,]\d+)?"
_DAY = rf"(?:\d{{4}}[-/]\d{{1,2}}[-/]\d{{1,2}}|{_MONTH}\.? \d{{1,2}},? \d{{4}}|\d{{1,2}}\.? {_MONTH}\.? \d{{4}})"

# The first that fits counts.
PATTERNS = {
    "uuid": r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
    "date and time": rf"{_DAY}(?:T|,? |, at )?{_CLOCK}(?:Z|[+-]\d{{2}}:?\d{{2}})?",
    "time": _CLOCK,
    "date": _DAY,
    "weekday": r"\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b",
    "timestamp": r"\b1\d{9}(?:\d{3}|\.\d+)?\b",
    "random id": r"\b(?=[0-9a-zA-Z_-]*\d)(?=[0-9a-zA-Z_-]*[a-zA-Z])[0-9a-zA-Z_-]{12,}\b",
    "number": r"\d+(?:[.,]\d+)*",
}
_COMPILED = {name: re.compile(pattern) for name, pattern in PATTERNS.items()}


class Volatile(NamedTuple):
    """kind: of PATTERNS; text [start, stop) of what was looked at."""

    kind: str
    start: int
    stop: int


def volatile_at(text: str, position: int) -> Volatile | None:
    """What holds this character, or begins or ends there."""
    for kind, pattern in _COMPILED.items():
        for match in pattern.finditer(text):
            if match.start() <= position <= match.end():
                return Volatile(kind, match.start(), match.end())
    return None


def volatile_in_both(one: str, other: str) -> str | None:
    """The kind that two texts have where they differ first; None: what differs is no such text."""
    length = min(len(one), len(other))
    at = next((i for i in range(length) if one[i] != other[i]), length)
    kinds = [found.kind for found in (volatile_at(one, at), volatile_at(other, at)) if found]
    return kinds[0] if len(kinds) == 2 and kinds[0] == kinds[1] else None
