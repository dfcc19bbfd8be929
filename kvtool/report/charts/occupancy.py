"""How full the cache was: blocks held by requests, cached beside them, and empty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt

from kvtool.report.charts.chart import Chart, count_format
from kvtool.report.charts.stacks import stack_areas
from kvtool.report.charts.thinning import MAX_POINTS
from kvtool.report.table import Table
from kvtool.report.wording import seconds, whole

Document = Mapping[str, Any]

UNITS = (("hours", 3600), ("minutes", 60), ("seconds", 1))
LAYERS = ("held", "cached", "free")
MAX_COLUMNS = MAX_POINTS // len(LAYERS)


def occupancy(document: Document) -> Chart | None:
    """None where no time passed."""
    replay = document["replay"]
    points = replay["occupancy"] if replay is not None else []
    points = points[:: -(-len(points) // MAX_COLUMNS) or 1]
    if len(points) < 2 or points[-1]["t_s"] <= points[0]["t_s"]:
        return None
    fullest = max(points, key=lambda point: point["held"] + point["cached"])
    unit, unit_s = next(
        unit for unit in UNITS if points[-1]["t_s"] >= 5 * unit[1] or unit is UNITS[-1]
    )
    chart = stack_areas(
        LAYERS,
        ((point["t_s"] / unit_s, point) for point in points),
        x=alt.X(
            "x:Q",
            title=f"{unit} of the {replay['clock']} clock",
            scale=alt.Scale(nice=False),
            axis=alt.Axis(grid=False),
        ),
        y=alt.Y(
            "y:Q",
            title="blocks",
            scale=alt.Scale(domain=[0, replay["capacity_blocks"]], nice=False),
            axis=alt.Axis(format=count_format(replay["capacity_blocks"]), tickCount=6),
        ),
    )
    return Chart(
        id="occupancy",
        title="Blocks of the cache over time",
        description=(
            f"Of {whole(replay['capacity_blocks'])} blocks, at most "
            f"{whole(fullest['held'] + fullest['cached'])} were in use at once, at "
            f"{seconds(fullest['t_s'])}; {whole(replay['evicted_blocks'])} were evicted in all."
        ),
        spec=chart,
        table=Table.of(
            "at#|held#|cached#|free#",
            (
                (seconds(point["t_s"]), *(whole(point[layer]) for layer in LAYERS))
                for point in points
            ),
        ),
    )
