"""Mean KL against cost, one point an arm."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from kvtool.drawing.file import write_drawing
from kvtool.drawing.shapes import GRID, INK, Label, Line, Point, Rectangle, Shape

WIDTH, HEIGHT = 1100, 720
LEFT, RIGHT, TOP, BOTTOM = 110, 860, 60, 640  # the plot area, in pixels
DOT = 4
# By what an arm's name begins with; the first that fits.
COLOURS = {
    "unrotated": "#888888",
    "left-out": "#888888",
    "recent": "#8250df",
    "similar": "#bf3989",
    "consensus": "#1a7f37",
    "attn": "#d1242f",
    "first:16+attn": "#d1242f",
    "vdev": "#bc7700",
    "kdev": "#7d5c00",
    "": "#1f6feb",
}


def write_plot(path: Path, title: str, arms: dict[str, dict[str, Any]]) -> None:
    """The scale of KL is logarithmic. arms: those of a summary."""
    kls = [arm["mean_kl"] for arm in arms.values() if arm["mean_kl"] > 0]
    low, high = math.floor(math.log10(min(kls))), math.ceil(math.log10(max(kls)))
    widest = max(0.1, *(arm["cost"] for arm in arms.values())) * 1.05

    def at(cost: float, kl: float) -> Point:
        share = (math.log10(max(kl, 10.0**low)) - low) / max(1, high - low)
        return LEFT + (RIGHT - LEFT) * cost / widest, BOTTOM - (BOTTOM - TOP) * share

    drawn = _axes(title, low, high, widest, at)
    free = float(TOP)
    for name, arm in sorted(arms.items(), key=lambda pair: -pair[1]["mean_kl"]):
        colour = next(c for start, c in COLOURS.items() if name.startswith(start))
        x, y = at(arm["cost"], arm["mean_kl"])
        drawn.append(
            Rectangle(left=x - DOT, top=y - DOT, right=x + DOT, bottom=y + DOT, colour=colour)
        )
        label = max(y, free)  # labels stand in a column, in the order of their points
        free = label + 15
        drawn.append(Line(points=((x + DOT, y), (RIGHT + 8, label)), colour=GRID))
        drawn.append(Label(x=RIGHT + 12, y=label, text=name, colour=colour))
    write_drawing(path, drawn, WIDTH, HEIGHT)


def _axes(title: str, low: int, high: int, widest: float, at: Any) -> list[Shape]:
    drawn: list[Shape] = [Label(x=LEFT, y=TOP - 30, text=title)]
    for exponent in range(low, high + 1):
        _, y = at(0, 10.0**exponent)
        drawn.append(Line(points=((LEFT, y), (RIGHT, y)), colour=GRID))
        drawn.append(Label(x=LEFT - 8, y=y, text=f"{10.0**exponent:g}", anchor="end"))
    for step in range(5):
        cost = widest * step / 4
        x, _ = at(cost, 10.0**low)
        drawn.append(Label(x=x, y=BOTTOM + 18, text=f"{cost:.2f}", anchor="middle"))
    middle = (LEFT + RIGHT) / 2
    text = "share of the moved text's computation that is spent again"
    drawn.append(Label(x=middle, y=BOTTOM + 46, text=text, anchor="middle"))
    drawn.append(Line(points=((LEFT, TOP), (LEFT, BOTTOM), (RIGHT, BOTTOM)), colour=INK, width=2))
    return drawn
