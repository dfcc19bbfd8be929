"""Values of the command line, read strictly: `1.0` and `1_0` are not integers, `nan` is no number.

Each function returns a parser for `typer.Option(parser=…)`. Typer runs defaults through the
parser as well, so values that are not text pass unchanged.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable

_INTEGER = re.compile(r"[+-]?[0-9]+")
_REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
MAX_INTEGER = 2**63 - 1


def integer(minimum: int, maximum: int = MAX_INTEGER) -> Callable[[str | int], int]:
    def parse(text: str | int) -> int:
        if not isinstance(text, str):
            return text
        if not _INTEGER.fullmatch(text):
            raise ValueError(f"{text!r} is not a whole number.")
        value = int(text[:32])
        if len(text) > 32 or not minimum <= value <= maximum:
            allowed = f"{minimum} or more" if maximum == MAX_INTEGER else f"{minimum} to {maximum}"
            raise ValueError(f"{text[:32]} is out of range; allowed: {allowed}.")
        return value

    return parse


def real(allowed: str, accepts: Callable[[float], bool]) -> Callable[[str | float], float]:
    """`allowed` says in words what `accepts` tests."""

    def parse(text: str | float) -> float:
        if not isinstance(text, str):
            return text
        value = float(text) if _REAL.fullmatch(text) else math.nan
        if not math.isfinite(value):
            raise ValueError(f"{text!r} is not a finite number.")
        if not accepts(value):
            raise ValueError(f"{text} is out of range; allowed: {allowed}.")
        return value

    return parse


def non_empty(text: str) -> str:
    if not text:
        raise ValueError("it is empty; allowed: non-empty text.")
    return text


def choice(names: Iterable[str]) -> Callable[[str], str]:
    allowed = tuple(names)

    def parse(text: str) -> str:
        if text in allowed:
            return text
        near = difflib.get_close_matches(text, allowed, n=1)
        suggestion = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{text!r} is unknown; allowed: {', '.join(allowed)}.{suggestion}")

    return parse
