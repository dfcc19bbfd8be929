"""One JSON object of a trace file, and typed access to its fields."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from kvtool.traces.read_log import BadRecord
from kvtool.traces.trace_request import Json, Place

MAX_TOKENS = 2**31 - 1  # of a request; more is damage
MAX_NUMBER = 1e20  # of seconds or their fractions, likewise


class Record(NamedTuple):
    """value: the object as it was written."""

    place: Place
    value: Json


def first_of(fields: Json, *names: str) -> Any:
    """The first of these fields that is there and not null."""
    for name in names:
        if (value := fields.get(name)) is not None:
            return value
    return None


def whole(fields: Json, *names: str, least: int = 0) -> int | None:
    """A whole number from `least`, under the first of its names that is there (2.0 counts as 2)."""
    value = first_of(fields, *names)
    if value is None:
        return None
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    if type(number) is not int or number < least:
        raise BadRecord(f"{names[0]} must be a whole number from {least}", f"it is {shown(value)}")
    if number > MAX_TOKENS:
        raise BadRecord(f"{names[0]} must be at most {MAX_TOKENS:,}", f"it is {shown(value)}")
    return number


def need_whole(fields: Json, *names: str, least: int = 0) -> int:
    value = whole(fields, *names, least=least)
    if value is None:
        raise BadRecord(f"{names[0]} is missing")
    return value


def number(fields: Json, *names: str, least: float = 0.0) -> float | None:
    """A finite number from `least`, such that sums of them are finite too."""
    value = first_of(fields, *names)
    if value is None:
        return None
    if type(value) not in (int, float) or not _is_finite(value) or value < least:
        raise BadRecord(f"{names[0]} must be a number from {least:g}", f"it is {shown(value)}")
    if value > MAX_NUMBER:
        raise BadRecord(f"{names[0]} must be at most {MAX_NUMBER:g}", f"it is {shown(value)}")
    return float(value)


def text(fields: Json, *names: str) -> str | None:
    """Text, or a number as text (ids are written both ways)."""
    value = first_of(fields, *names)
    if value is None or isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    raise BadRecord(f"{names[0]} must be text", f"it is {shown(value)}")


def items(fields: Json, *names: str) -> list[Any]:
    """A list; a missing one is empty."""
    value = first_of(fields, *names)
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadRecord(f"{names[0]} must be a list", f"it is {shown(value)}")
    return value


def texts(fields: Json, *names: str) -> tuple[str, ...]:
    """A list of ids, as text."""
    return tuple(
        text({names[0]: value}, names[0]) or _no_null(names[0]) for value in items(fields, *names)
    )


def inner(fields: Json, *names: str) -> Json:
    """An object; a missing one is empty."""
    value = first_of(fields, *names)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise BadRecord(f"{names[0]} must be an object", f"it is {shown(value)}")
    return value


def shown(value: object) -> str:
    """A short form of a wrong value for a message."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    printed = "null" if value is None else repr(value)
    return printed if len(printed) <= 60 else f"{printed[:57]}..."


def _no_null(name: str) -> str:
    raise BadRecord(f"{name} must be a list of ids", "one is empty")


def _is_finite(value: int | float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond a float's range
        return False
