"""Blocks of code between fences."""

from __future__ import annotations

import re

_MARK = re.compile(r"```|~~~")
_AT_LINE = re.compile(r"^[ \t]*(```|~~~)", re.MULTILINE)


def num_fences(text: str) -> int:
    return len(_AT_LINE.findall(text))


def fences_pair(text: str) -> bool:
    """Whether it is clear where code begins and ends: fences of one kind, each at the beginning
    of a line, as many that open as that close."""
    marks = _MARK.findall(text)
    return len(set(marks)) <= 1 and len(marks) == num_fences(text) and len(marks) % 2 == 0
