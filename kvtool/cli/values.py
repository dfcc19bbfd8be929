"""Values of parameters, read by the parsers they were declared with.

Typer would build a validator for each parameter, with a library that takes longer to import than
most commands to run. None is needed here: a parameter is a flag, text, or has a parser.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer


class Reader:
    """Takes the place of the validator that Typer asks a parameter for.

    parse: one word to its value; raises `ValueError` for what it refuses.
    """

    def __init__(self, parse: Callable[[Any], Any]) -> None:
        self._parse = parse

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        try:
            if param.multiple or param.nargs == -1:
                return [self._parse(item) for item in value or ()]
            return None if value is None else self._parse(value)
        except ValueError as error:
            raise typer.BadParameter(str(error), ctx=ctx, param=param) from None


def read_directly(parameter: Any) -> None:
    """Gives a parameter of Typer a `Reader`; its type is what its parser makes of a word."""
    declared = parameter.type_descriptor
    parse = declared.parameter_info.parser
    assert parse or declared.annotation in (bool, str, list[str]), f"{parameter.name} has no parser"
    reader = Reader(parse or _as_given)
    parameter.get_runtime_param = lambda: reader


def _as_given(value: Any) -> Any:
    return value
