"""JSON that a log keeps as text inside a field."""

from __future__ import annotations

import json
from collections.abc import Mapping

from kvtool.errors import InputError
from kvtool.json_input import parse_json
from kvtool.traces.trace_request import Json


def unpacked(value: object) -> object:
    """What JSON text with an object or a list stands for; anything else is itself."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        found = parse_json(value, "text")
    except InputError:
        return value
    return _well_formed(found) if "\\u" in value else found


def unpacked_object(value: object) -> Json | None:
    found = unpacked(value)
    return found if isinstance(found, Mapping) else None


def _well_formed(value: object) -> object:
    text = json.dumps(value, ensure_ascii=False)  # halves of surrogate pairs, as in any record
    return json.loads(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
