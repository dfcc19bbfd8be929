"""What the same load takes in memory, by how KV is laid out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt

from kvtool.report.charts.chart import Chart, count_format, drawing, layered
from kvtool.report.charts.palette import colour
from kvtool.report.table import Table
from kvtool.report.wording import short, size, whole

Document = Mapping[str, Any]


def memory(document: Document) -> Chart | None:
    found = document["memory"]
    if found is None or not found["layouts"]:
        return None
    rows = [
        {
            "layout": row["layout"],
            "tokens": row["peak_tokens"],
            "text": f"{short(row['peak_tokens'])} tokens"
            + (f", {size(row['peak_bytes'])}" if row["peak_bytes"] else ""),
        }
        for row in found["layouts"]
    ]
    return Chart(
        id="memory",
        title=f"Peak memory of {found['concurrency']} requests at once, by layout",
        description="; ".join(f"{row['layout']}: {row['text']}" for row in rows) + ".",
        spec=_spec(rows),
        table=Table.of(
            "layout|what it is|peak tokens#|peak bytes#",
            (
                (
                    row["layout"],
                    row["definition"],
                    whole(row["peak_tokens"]),
                    size(row["peak_bytes"]),
                )
                for row in found["layouts"]
            ),
        ),
    )


def _spec(rows: list[dict[str, Any]]) -> alt.LayerChart:
    longest = max(row["tokens"] for row in rows) or 1
    base = drawing(rows, alt.Step(32)).encode(
        y=alt.Y(
            "layout:N",
            sort=[row["layout"] for row in rows],
            title=None,
            axis=alt.Axis(ticks=False, domain=False),
        ),
        x=alt.X(
            "tokens:Q",
            title="tokens",
            scale=alt.Scale(domain=[0, 1.3 * longest], nice=False),
            axis=alt.Axis(format=count_format(longest), tickCount=6),
        ),
    )
    bars = base.mark_bar(height=20, color=colour("accent"), cornerRadiusEnd=2)
    return layered(bars, base.mark_text(align="left", dx=6).encode(text="text:N"))
