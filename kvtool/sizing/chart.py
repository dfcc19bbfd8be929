"""Size against tokens as a drawing of lines and labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kvtool.drawing.file import write_drawing
from kvtool.drawing.shapes import GRID, INK, Label, Line, Point, Shape, Shapes

WIDTH, HEIGHT = 960, 600
LEFT, RIGHT, TOP, BOTTOM = 120, 885, 60, 530  # the plot area, in pixels
CURVE, LIMIT = "#1f6feb", "#d1242f"


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """points: (tokens, bytes), ascending. limit: memory for KV in bytes; end: tokens that fill it."""

    title: str
    points: tuple[tuple[int, int], ...]
    limit: int | None
    end: int | None


def shapes(curve: Curve, size_text: Callable[[int], str]) -> Shapes:
    """size_text: how a number of bytes is written on the axis."""
    last_tokens, last_bytes = curve.points[-1]
    top = max(last_bytes, curve.limit or 0, 1) * 1.05

    def at(tokens: float, num_bytes: float) -> Point:
        x = LEFT + (RIGHT - LEFT) * tokens / last_tokens
        return x, BOTTOM - (BOTTOM - TOP) * num_bytes / top

    drawn: list[Shape] = [Label(x=LEFT, y=TOP - 30, text=curve.title)]
    for step in range(5):
        x, y = at(last_tokens * step / 4, top * step / 4)
        drawn.append(Line(points=((LEFT, y), (RIGHT, y)), colour=GRID))
        drawn.append(Label(x=LEFT - 8, y=y, text=size_text(int(top * step / 4)), anchor="end"))
        drawn.append(
            Label(x=x, y=BOTTOM + 18, text=f"{last_tokens * step // 4:,}", anchor="middle")
        )
    drawn.append(Label(x=(LEFT + RIGHT) / 2, y=BOTTOM + 46, text="tokens", anchor="middle"))
    drawn.append(Line(points=((LEFT, TOP), (LEFT, BOTTOM), (RIGHT, BOTTOM)), colour=INK, width=2))
    drawn.append(Line(points=tuple(at(*p) for p in curve.points), colour=CURVE, width=3))
    if curve.limit is not None:
        drawn += _limit(curve, at, size_text)
    return drawn


def _limit(
    curve: Curve, at: Callable[[float, float], Point], size_text: Callable[[int], str]
) -> Shapes:
    limit = curve.limit or 0
    left, right = at(0, limit), at(curve.points[-1][0], limit)
    drawn: list[Shape] = [Line(points=(left, right), colour=LIMIT, width=2)]
    text = f"memory for KV {size_text(limit)}"
    if curve.end is not None and 0 < curve.end <= curve.points[-1][0]:
        x, y = at(curve.end, limit)
        drawn.append(Line(points=((x, y), (x, BOTTOM)), colour=LIMIT))
        text += f", full at {curve.end:,} tokens"
    return [*drawn, Label(x=LEFT + 10, y=left[1] - 14, text=text, colour=LIMIT)]


def write_chart(path: Path, drawn: Shapes) -> None:
    """`ConfigError` for another ending than .svg or .png, or a folder that cannot be written."""
    write_drawing(path, drawn, WIDTH, HEIGHT)
