"""JSON that others wrote: strict, with the place of the mistake in the message."""

from __future__ import annotations

import json
from typing import NoReturn

from kvtool.errors import InputError


def parse_json(text: str, where: str) -> object:
    """Raises `InputError` for anything but one valid JSON value (NaN and Infinity are not)."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"{where} is not JSON: {error.msg} at {place}.") from None
    except RecursionError:
        raise InputError(f"{where} is not usable JSON: it is nested too deeply.") from None
    except ValueError as error:
        raise InputError(f"{where} is not usable JSON: {error}.") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
