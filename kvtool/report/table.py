"""A table of the page: cells are text already."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

MAX_ROWS = 2000


class Table(NamedTuple):
    """columns: a name that ends in # is one of numbers, set to the right. omitted: further rows."""

    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    omitted: int = 0

    @classmethod
    def of(cls, columns: str, rows: Iterable[tuple[str, ...]], limit: int = MAX_ROWS) -> Table:
        """columns: their names, with | between them."""
        found = list(rows)
        return cls(tuple(columns.split("|")), found[:limit], max(0, len(found) - limit))
