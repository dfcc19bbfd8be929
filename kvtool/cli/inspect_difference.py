"""The first difference of two token sequences, and of two namespaces, for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kvtool.cli.inspect_text import shortened
from kvtool.cli.printable import printable
from kvtool.inspection.first_difference import FirstDifference, Side
from kvtool.inspection.namespaces import FieldDifference

CONTEXT_WIDTH = 40
VALUE_WIDTH = 72


def difference_lines(difference: FirstDifference, one: str, other: str) -> Iterator[str]:
    """Two lines, one below the other, with the token that differs in « »."""
    width = max(len(one), len(other))
    for name, side in ((one, difference.prompt), (other, difference.stored)):
        yield f"    {name:<{width}}  {_side(difference, side)}"


def _side(difference: FirstDifference, side: Side) -> str:
    if side.text is None:
        return f"token {side.token_id} at {difference.position}"
    before = shortened(printable(difference.before or ""), CONTEXT_WIDTH)
    behind = shortened(printable(side.behind or ""), CONTEXT_WIDTH)
    return f"{before}«{printable(side.text)}»{behind}  (token {side.token_id})"


def namespace_lines(differences: Iterable[FieldDifference]) -> Iterator[str]:
    for d in differences:
        yield f"    {d.field}: {_value(d.asked)} here, {_value(d.stored)} there"


def _value(value: object) -> str:
    return "none" if value is None else shortened(printable(str(value)), VALUE_WIDTH)
