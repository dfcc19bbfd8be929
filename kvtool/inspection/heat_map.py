"""A heat map of stored KV: layers down, positions across, one panel for K and one for V.

A cell is the mean L2 norm of a head's vector. Positions are two columns an octave, so the first
token, often an attention sink (Xiao et al., 2024), has a column of its own however long the
prompt; a layer unlike the others is a row.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from kvtool.drawing.colour_scale import ColourScale
from kvtool.drawing.file import write_drawing
from kvtool.drawing.shapes import INK, Label, Line, Rectangle, Shape, Shapes
from kvtool.inspection.kv_statistics import KVStatistics, PositionNorms

WIDTH = 1200
TOP, BELOW = 110, 170  # pixels above and below the cells
BROKEN = "#00a3a3"  # no colour of the scale
LEGEND_STEPS, LEGEND_HEIGHT, LEGEND_WIDTH = 64, 14, 320  # at least so wide
LETTER = 12  # pixels a letter needs at most


class Panel(NamedTuple):
    """Where the cells of one part lie."""

    left: int
    cell_width: int
    cell_height: int
    num_columns: int
    num_rows: int

    @property
    def right(self) -> int:
        return self.left + self.cell_width * self.num_columns

    @property
    def bottom(self) -> int:
        return TOP + self.cell_height * self.num_rows

    def cell(self, row: int, column: int, colour: str) -> Rectangle:
        left, top = self.left + column * self.cell_width, TOP + row * self.cell_height
        right, bottom = left + self.cell_width, top + self.cell_height
        return Rectangle(left=left, top=top, right=right, bottom=bottom, colour=colour)


def write_heat_map(path: Path, statistics: KVStatistics, title: str) -> None:
    """`ConfigError` for another ending than .svg or .png, or a folder that cannot be written."""
    panels = panels_of(statistics)
    write_drawing(path, heat_map(statistics, title), WIDTH, panels[0].bottom + BELOW)


def panels_of(statistics: KVStatistics) -> list[Panel]:
    num_rows, num_columns = statistics.positions[0].norms.shape
    share = WIDTH // len(statistics.positions)
    cell_width = max(1, min(40, (share - 120) // num_columns))
    cell_height = max(3, min(24, 480 // num_rows))
    return [
        Panel(number * share + 75, cell_width, cell_height, num_columns, num_rows)
        for number in range(len(statistics.positions))
    ]


def heat_map(statistics: KVStatistics, title: str) -> Shapes:
    drawn: list[Shape] = [Label(x=75, y=30, text=title)]
    for panel, norms in zip(panels_of(statistics), statistics.positions):
        scale = _scale(norms)
        drawn += [Label(x=panel.left, y=TOP - 40, text=f"{norms.part}: mean norm of a head")]
        drawn += _cells(panel, norms, scale)
        drawn += _axes(panel, statistics.edges)
        drawn += _legend(panel, scale, has_broken=bool(norms.broken.any()))
    return drawn


def _scale(norms: PositionNorms) -> ColourScale:
    shown = norms.norms[(norms.norms > 0) & ~norms.broken]
    if not shown.size:
        return ColourScale(1.0, 1.0)
    return ColourScale(float(shown.min()), float(shown.max()))


def _cells(panel: Panel, norms: PositionNorms, scale: ColourScale) -> Shapes:
    """Nothing where no token is stored."""
    return [
        panel.cell(row, column, BROKEN if norms.broken[row, column] else scale.colour(float(norm)))
        for (row, column), norm in np.ndenumerate(norms.norms)
        if not np.isnan(norm)
    ]


def _axes(panel: Panel, edges: tuple[int, ...]) -> Shapes:
    corners = ((panel.left, TOP), (panel.left, panel.bottom), (panel.right, panel.bottom))
    drawn: list[Shape] = [Line(points=corners, colour=INK)]
    for row in range(0, panel.num_rows, -(-20 // panel.cell_height)):
        y = TOP + (row + 0.5) * panel.cell_height
        drawn.append(Label(x=panel.left - 8, y=y, text=str(row), anchor="end"))
    drawn.append(Label(x=panel.left - 8, y=TOP - 18, text="layer", anchor="end"))
    free = 0.0
    for column, edge in enumerate(edges[:-1]):
        x, text = panel.left + (column + 0.5) * panel.cell_width, _short(edge)
        half = LETTER * (len(text) + 1) / 2
        if x - half >= free:
            drawn.append(Label(x=x, y=panel.bottom + 16, text=text, anchor="middle"))
            free = x + half
    middle = (panel.left + panel.right) / 2
    return [*drawn, Label(x=middle, y=panel.bottom + 40, text="position", anchor="middle")]


def _short(position: int) -> str:
    return f"{position >> 10}k" if position and position % 1024 == 0 else str(position)


def _legend(panel: Panel, scale: ColourScale, *, has_broken: bool) -> Shapes:
    """The scale as a bar with its ends and its middle."""
    top, width = panel.bottom + 66, max(panel.right - panel.left, LEGEND_WIDTH)
    drawn: list[Shape] = []
    for step in range(LEGEND_STEPS):
        left, right = (panel.left + width * s / LEGEND_STEPS for s in (step, step + 1))
        colour = scale.colour(scale.number((step + 0.5) / LEGEND_STEPS))
        drawn.append(
            Rectangle(left=left, top=top, right=right, bottom=top + LEGEND_HEIGHT, colour=colour)
        )
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        text = f"{scale.number(share):.3g}"
        x, y = panel.left + width * share, top + LEGEND_HEIGHT + 14
        drawn.append(Label(x=x, y=y, text=text, anchor=anchor))
    y = top + LEGEND_HEIGHT + 36
    drawn.append(Label(x=panel.left, y=y, text="log scale"))
    if has_broken:
        y += 22
        drawn.append(
            Rectangle(
                left=panel.left, top=y - 7, right=panel.left + 14, bottom=y + 7, colour=BROKEN
            )
        )
        drawn.append(Label(x=panel.left + 22, y=y, text="NaN or Inf"))
    return drawn
