"""What each scheme of reuse finds, and what is left of it behind repair."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt

from kvtool.report.charts.chart import Chart, drawing, layered
from kvtool.report.charts.palette import colour
from kvtool.report.table import Table
from kvtool.report.wording import percent, size, whole

Document = Mapping[str, Any]


def schemes(document: Document) -> Chart | None:
    """None where none could be measured."""
    measured = [row for row in document["schemes"] if row["token_rate"] is not None]
    if not measured:
        return None
    rows = [
        {
            "scheme": row["scheme"],
            "found": row["token_rate"],
            "net": row["net_token_rate"] or 0.0,
            "text": f"{percent(row['token_rate'], 1)}, net {percent(row['net_token_rate'], 1)}",
        }
        for row in measured
    ]
    return Chart(
        id="schemes",
        title="Schemes of reuse, with a cache that never evicts",
        description="; ".join(f"{row['scheme']}: {row['text']}" for row in rows) + ".",
        spec=_spec(rows),
        table=_table(document["schemes"]),
    )


def _spec(rows: list[dict[str, Any]]) -> alt.LayerChart:
    base = drawing(rows, alt.Step(38)).encode(
        y=alt.Y(
            "scheme:N",
            sort=[row["scheme"] for row in rows],
            title=None,
            axis=alt.Axis(ticks=False, domain=False),
        )
    )
    scale = alt.Scale(domain=[0, 1.3 * max(0.01, *(row["found"] for row in rows))], nice=False)
    x = alt.X("found:Q", title="prompt tokens; the lighter part is spent on repair", scale=scale)
    x = x.axis(format=".0%", values=[share / 10 for share in range(11)])
    found = base.mark_bar(height=24, color=colour("accent"), opacity=0.35).encode(x=x)
    net = base.mark_bar(height=24, color=colour("accent")).encode(x=alt.X("net:Q", scale=scale))
    text = base.mark_text(align="left", dx=6).encode(x=alt.X("found:Q", scale=scale), text="text:N")
    return layered(found, net, text)


def _table(rows: list[Document]) -> Table:
    return Table.of(
        "scheme|finds|tokens found#|share#|net of repair#|moved#|extra bytes#|not measurable",
        (
            (
                row["scheme"],
                row["definition"],
                whole(row["found_tokens"]),
                percent(row["token_rate"]),
                percent(row["net_token_rate"]),
                whole(row["moved_tokens"]),
                size(row["extra_bytes"]),
                row["reason"] or "",
            )
            for row in rows
        ),
    )
