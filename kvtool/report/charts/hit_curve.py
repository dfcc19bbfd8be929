"""How the hit rate grows with the cache: the whole LRU curve, other policies at some capacities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

import altair as alt

from kvtool.report.charts.chart import Chart, drawing, layered
from kvtool.report.charts.palette import colour, colours
from kvtool.report.charts.thinning import MAX_POINTS, thinned
from kvtool.report.table import Table
from kvtool.report.wording import percent, whole

Document = Mapping[str, Any]

HEIGHT = 320
NOT_POLICIES = ("capacity_blocks", "capacity_tokens", "capacity_bytes")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
MAX_POLICIES = len(SHAPES)


def hit_curve(document: Document) -> Chart | None:
    """None where nothing is asked for twice."""
    curve = document["lru_curve"]
    if not curve:
        return None
    drawn = thinned([(log(row["capacity_blocks"]), row["token"]) for row in curve], MAX_POINTS - 2)
    rows = [curve[index] for index in drawn]
    points = policy_points(document["curve"])
    last = max([rows[-1]["capacity_blocks"], *(point["capacity"] for point in points)])
    ceiling = curve[-1]["token"]
    return Chart(
        id="hit-curve",
        title="Hit rate by size of the cache",
        description=(
            f"Share of prompt tokens found in an LRU cache, by its capacity in blocks on a "
            f"logarithmic axis. It ends at {percent(ceiling)} with "
            f"{whole(curve[-1]['capacity_blocks'])} blocks; a larger cache finds no more."
        ),
        spec=_spec(rows, points, last, ceiling),
        table=Table.of(
            "capacity, blocks#|LRU, tokens#|LRU, blocks#",
            (
                (whole(row["capacity_blocks"]), percent(row["token"]), percent(row["block"]))
                for row in rows
            ),
        ),
    )


def policy_points(curve: Sequence[Document]) -> list[dict[str, Any]]:
    """What each policy finds at the capacities that were looked at."""
    names = [name for name in (curve[0] if curve else ()) if name not in NOT_POLICIES]
    return [
        {"capacity": row["capacity_blocks"], "policy": name, "rate": row[name]["token"] or 0.0}
        for row in curve[:: -(-len(curve) // 200) or 1]
        for name in names[:MAX_POLICIES]
    ]


def _spec(
    rows: list[Document], points: list[dict[str, Any]], last: int, ceiling: float
) -> alt.LayerChart:
    first = rows[0]["capacity_blocks"]
    line = [
        {"capacity": max(1, first) * 0.8, "rate": 0.0},
        {"capacity": first, "rate": 0.0},
        *({"capacity": row["capacity_blocks"], "rate": row["token"]} for row in rows),
        {"capacity": last * 1.15, "rate": ceiling},
    ]
    top = max(ceiling, *(point["rate"] for point in points), 1e-9) * 1.08
    x = alt.X(
        "capacity:Q",
        title="capacity, blocks",
        scale=alt.Scale(type="log", domain=[line[0]["capacity"], line[-1]["capacity"]], nice=False),
        axis=alt.Axis(format="~s", tickCount=8, grid=False),
    )
    y = alt.Y(
        "rate:Q",
        title="prompt tokens found",
        scale=alt.Scale(domain=[0, min(1.0, top)], nice=False),
        axis=alt.Axis(format=".0%" if top > 0.05 else ".2%", tickCount=6),
    )
    base = drawing(line, HEIGHT).encode(x=x, y=y)
    area = base.mark_area(interpolate="step-after", color=colour("lru"), opacity=0.12)
    steps = base.mark_line(interpolate="step-after", color=colour("lru"), strokeWidth=2)
    limit = (
        drawing([{"rate": ceiling}], HEIGHT)
        .mark_rule(color=colour("muted"), strokeDash=[5, 4])
        .encode(y="rate:Q")
    )
    layers = [area, limit, steps]
    if points:
        layers.append(_points(points, x, y))
    return layered(*layers)


def _points(points: list[dict[str, Any]], x: alt.X, y: alt.Y) -> alt.Chart:
    names = list(dict.fromkeys(point["policy"] for point in points))
    palette = colours(f"policy-{number + 1}" for number in range(len(names)))
    if "lru" in names:
        palette.insert(names.index("lru"), colour("lru"))
    legend = alt.Legend(title="policy")
    chart: alt.Chart = (
        drawing(points, HEIGHT)
        .mark_point(filled=True, size=75, opacity=1, stroke=colour("paper"), strokeWidth=1)
        .encode(
            x=x,
            y=y,
            color=alt.Color(
                "policy:N",
                scale=alt.Scale(domain=names, range=palette[: len(names)]),
                legend=legend,
            ),
            shape=alt.Shape(
                "policy:N",
                scale=alt.Scale(domain=names, range=list(SHAPES[: len(names)])),
                legend=legend,
            ),
        )
    )
    return chart
