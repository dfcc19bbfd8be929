"""JSON of a trace: strict, and free of text that no tokenizer can encode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvtool.errors import InputError
from kvtool.json_input import parse_json
from kvtool.traces.read_log import BadRecord, ReadLog
from kvtool.traces.trace_request import Json, Place

REPLACED = "Lone surrogates in text were replaced by U+FFFD"


def parse_object(text: str, place: Place, log: ReadLog) -> Json:
    """Raises `BadRecord` for anything but one valid JSON object (see `parse_json`). Halves of a
    surrogate pair that stand alone (JSON can write them, UTF-8 cannot) become U+FFFD."""
    try:
        value = parse_json(text, "the record")
    except InputError as error:
        reason, _, shown = error.message.removesuffix(".").partition(": ")
        raise BadRecord(reason, shown) from None
    if not isinstance(value, Mapping):
        raise BadRecord("the record is not a JSON object")
    if "\\ud" not in text and "\\uD" not in text:
        return value
    cleaned: Json = _cleaned(value)
    if cleaned != value:
        log.note(REPLACED, place)
    return cleaned


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else _replaced(value)
    if isinstance(value, list):
        return [_cleaned(inner) for inner in value]
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(inner) for key, inner in value.items()}
    return value


def _replaced(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
