"""Layers on top of each other, laid out here: one row a piece."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import altair as alt

from kvtool.report.charts.chart import drawing
from kvtool.report.charts.palette import colour, colours
from kvtool.report.wording import named

HEIGHT = 300


def stacked(
    layers: Sequence[str], columns: Iterable[tuple[float, float, Mapping[str, float]]]
) -> list[dict[str, Any]]:
    """columns: from x to x2, the height of each layer; those of no height are left out."""
    rows = []
    for x, x2, heights in columns:
        y = 0.0
        for layer in layers:
            if height := heights.get(layer):
                row = {"x": x, "x2": x2, "y": y, "y2": y + height, "layer": named(layer)}
                rows.append(row)
                y += height
    return rows


def stack_columns(
    rows: list[dict[str, Any]], layers: Sequence[str], x: alt.X, y: alt.Y
) -> alt.Chart:
    """layers: names in the palette, from the bottom."""
    base = drawing(rows, HEIGHT)
    columns = base.mark_rect(stroke=colour("paper"), strokeWidth=0.5)
    chart: alt.Chart = columns.encode(x=x, x2="x2:Q", y=y, y2="y2:Q", color=_colour(layers))
    return chart


def stack_areas(
    layers: Sequence[str], points: Iterable[tuple[float, Mapping[str, float]]], x: alt.X, y: alt.Y
) -> alt.Chart:
    """points: from x on, the height of each layer."""
    rows = []
    for at, heights in points:
        tops = accumulate(heights[layer] for layer in layers)
        for layer, top in zip(layers, tops):
            rows.append({"x": at, "y": top - heights[layer], "y2": top, "layer": named(layer)})
    areas = drawing(rows, HEIGHT).mark_area(interpolate="step-after")
    chart: alt.Chart = areas.encode(x=x, y=y, y2="y2:Q", color=_colour(layers))
    return chart


def _colour(layers: Sequence[str]) -> alt.Color:
    scale = alt.Scale(domain=[named(layer) for layer in layers], range=colours(layers))
    return alt.Color("layer:N", scale=scale, legend=alt.Legend(title=None))
