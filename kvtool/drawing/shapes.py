"""What a chart is made of; coordinates are pixels from the top left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

INK, GRID = "#222222", "#dddddd"
Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    points: tuple[Point, ...]
    colour: str
    width: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rectangle:
    """Filled from (left, top) up to (right, bottom); neighbours that share an edge do not overlap."""

    left: float
    top: float
    right: float
    bottom: float
    colour: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """anchor: which end of the text is at x; y is its middle."""

    x: float
    y: float
    text: str
    anchor: str = "start"  # start | middle | end
    colour: str = INK


Shape = Line | Rectangle | Label
Shapes = Sequence[Shape]
