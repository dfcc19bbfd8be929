"""Parameters are read by their parsers, without Typer's validators."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import typer
from typer.main import get_command

from kvtool.cli.help import PanelCommand


def double(text: str) -> int:
    if text == "odd":
        raise ValueError("odd is refused.")
    return 2 * int(text)


def read(annotation: Any, *args: str) -> Any:
    """What a command gets for its only parameter."""
    got = []
    app = typer.Typer(add_completion=False)

    def command(value: Any = None) -> None:
        got.append(value)

    command.__annotations__["value"] = annotation
    app.command(cls=PanelCommand)(command)
    get_command(app)(list(args), standalone_mode=False)
    return got[0]


def test_text_is_taken_as_it_is() -> None:
    assert read(Annotated[str | None, typer.Option()]) is None
    assert read(Annotated[str | None, typer.Option()], "--value", " 1 ") == " 1 "
    repeated = Annotated[list[str] | None, typer.Option()]
    assert read(repeated) is None
    assert read(repeated, "--value", "a", "--value", "") == ["a", ""]


def test_parsers_make_the_values() -> None:
    assert read(Annotated[int | None, typer.Option(parser=double)]) is None
    assert read(Annotated[int | None, typer.Option(parser=double)], "--value", "2") == 4
    repeated = Annotated[list[int] | None, typer.Option(parser=double)]
    assert read(repeated, "--value", "1", "--value", "3") == [2, 6]
    assert read(Annotated[list[int] | None, typer.Argument(parser=double)], "1", "3") == [2, 6]


def test_what_a_parser_refuses_is_a_usage_error() -> None:
    with pytest.raises(typer.BadParameter) as raised:
        read(Annotated[int | None, typer.Option(parser=double)], "--value", "odd")
    assert raised.value.format_message() == "Invalid value for '--value': odd is refused."


def test_other_types_need_a_parser() -> None:
    with pytest.raises(AssertionError, match="value has no parser"):
        read(Annotated[int | None, typer.Option()])
