"""Hash ids as logs write them: numbers of any size, or text."""

from __future__ import annotations

from kvtool.traces.read_log import BadRecord
from kvtool.traces.record import items, shown
from kvtool.traces.trace_request import Json

_KINDS = {int, str}  # no float: beyond 2**53 it has lost digits; no bool: True equals 1


def hash_ids_of(fields: Json, name: str = "hash_ids") -> tuple[int | str, ...]:
    """Raises `BadRecord` for anything but a list of whole numbers or texts."""
    ids = items(fields, name)
    if not set(map(type, ids)) <= _KINDS:
        wrong = next(value for value in ids if type(value) not in _KINDS)
        raise BadRecord(f"{name} must be whole numbers or text", f"one is {shown(wrong)}")
    return tuple(ids)
