"""Why tokens were missed: in all, and over the trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt

from kvtool.report.charts.chart import Chart, count_format, drawing, layered
from kvtool.report.charts.palette import colour, colours
from kvtool.report.charts.stacks import stack_columns, stacked
from kvtool.report.table import Table
from kvtool.report.wording import named, percent, seconds, short, whole

Document = Mapping[str, Any]

HIT = "hit"


def cause_totals(document: Document) -> Chart | None:
    """None where nothing was missed."""
    misses = document["misses"]
    if misses is None or not misses["total_tokens"]:
        return None
    causes = {name: tokens for name, tokens in misses["causes"].items() if tokens}
    order = sorted(causes, key=lambda name: -causes[name])
    rows = [
        {
            "cause": named(name),
            "tokens": causes[name],
            "text": f"{short(causes[name])}  ({percent(causes[name] / misses['total_tokens'], 1)})",
        }
        for name in order
    ]
    return Chart(
        id="causes",
        title="Missed tokens by cause",
        description="Most tokens were missed by: "
        + ", ".join(f"{row['cause']} {row['text']}" for row in rows[:3])
        + ".",
        spec=_bars(rows, order),
        table=Table.of(
            "cause|tokens#|share#|what it means",
            (
                (
                    named(name),
                    whole(tokens),
                    percent(tokens / misses["total_tokens"]),
                    misses["definitions"][name],
                )
                for name, tokens in misses["causes"].items()
            ),
        ),
    )


def _bars(rows: list[dict[str, Any]], order: list[str]) -> alt.LayerChart:
    names = [row["cause"] for row in rows]
    longest = max(row["tokens"] for row in rows)
    base = drawing(rows, alt.Step(30)).encode(
        y=alt.Y("cause:N", sort=names, title=None, axis=alt.Axis(ticks=False, domain=False)),
        x=alt.X(
            "tokens:Q",
            title="tokens",
            scale=alt.Scale(domain=[0, 1.22 * longest], nice=False),
            axis=alt.Axis(format=count_format(longest), tickCount=6),
        ),
    )
    bars = base.mark_bar(height=20, cornerRadiusEnd=2).encode(
        color=alt.Color("cause:N", scale=alt.Scale(domain=names, range=colours(order)), legend=None)
    )
    return layered(
        bars, base.mark_text(align="left", dx=6, color=colour("ink")).encode(text="text:N")
    )


def causes_over_time(document: Document) -> Chart | None:
    """None for a trace of one request, or without causes."""
    misses = document["misses"]
    periods = misses["over_time"] if misses is not None else []
    if len(periods) < 2:
        return None
    layers = [HIT, *(name for name in misses["causes"] if misses["causes"][name])]
    columns = [
        (
            period["from_request"],
            period["from_request"] + period["requests"],
            {HIT: period["hit_tokens"], **period["causes"]},
        )
        for period in periods
    ]
    highest = max(sum(heights.values()) for _, _, heights in columns)
    return Chart(
        id="causes-over-time",
        title="Hits and misses over the trace",
        description=(
            f"Prompt tokens in the order of the trace, in {len(periods)} pieces: found in the "
            "cache at the bottom, above them those missed, by cause."
        ),
        spec=stack_columns(
            stacked(layers, columns),
            layers,
            x=alt.X(
                "x:Q",
                title="request, in the order of the trace",
                scale=alt.Scale(domain=[0, columns[-1][1]], nice=False),
                axis=alt.Axis(
                    format=count_format(columns[-1][1]), grid=False, tickMinStep=1, tickCount=10
                ),
            ),
            y=alt.Y(
                "y:Q",
                title="prompt tokens",
                axis=alt.Axis(format=count_format(highest), tickCount=6),
            ),
        ),
        table=_over_time_table(periods, layers),
    )


def _over_time_table(periods: list[Document], layers: list[str]) -> Table:
    return Table.of(
        "from request#|requests#|at#|" + "|".join(f"{named(layer)}#" for layer in layers),
        (
            (
                whole(period["from_request"]),
                whole(period["requests"]),
                seconds(period["t_s"]),
                whole(period["hit_tokens"]),
                *(whole(period["causes"].get(name, 0)) for name in layers[1:]),
            )
            for period in periods
        ),
    )
