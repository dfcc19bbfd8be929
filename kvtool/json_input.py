"""JSON that others wrote: strict, with the place of the mistake in the message."""

from __future__ import annotations

import json
import math
from typing import NoReturn

from kvtool.errors import InputError
from kvtool.nesting import MAX_DEPTH, is_too_deep


def parse_json(text: str, where: str) -> object:
    """Raises `InputError` for anything but one valid JSON value (NaN and Infinity are not), for
    numbers beyond a float's range, and for nesting beyond `MAX_DEPTH`."""
    try:
        document = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if "\n" in text else ""
        place = f"{line}column {error.colno}"
        raise InputError(f"{where} is not JSON: {error.msg} at {place}.") from None
    except RecursionError:
        raise _too_deep(where) from None
    except ValueError as error:
        raise InputError(f"{where} is not usable JSON: {error}.") from None
    brackets = text.count("[") + text.count("{")
    if brackets > MAX_DEPTH and is_too_deep(document):  # fewer cannot be nested so deeply
        raise _too_deep(where)
    return document


def type_name(value: object) -> str:
    """What JSON calls the type of a parsed value."""
    return _TYPE_NAMES[type(value)]


_TYPE_NAMES = {
    dict: "an object",
    list: "a list",
    str: "text",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number:.40} is too large a number")
    return value


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)


def _too_deep(where: str) -> InputError:
    return InputError(
        f"{where} is not usable JSON: it is nested too deeply; allowed: {MAX_DEPTH} levels."
    )
