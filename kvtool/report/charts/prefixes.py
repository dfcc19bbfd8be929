"""The tree of shared prefixes: a row a stretch of text, from where it starts to where it ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from math import sqrt
from typing import Any, NamedTuple

import altair as alt

from kvtool.report.charts.chart import WIDTH, Chart, count_format, drawing, layered
from kvtool.report.charts.palette import colour
from kvtool.report.table import Table
from kvtool.report.wording import line, short, whole

Document = Mapping[str, Any]

ROW = 21  # pixels
CHARACTER = 7.2  # pixels
BEYOND = 1.9  # of the deepest text: room for labels


class Placed(NamedTuple):
    """level: how many stretches are in front of it. row: its own; parent_row: of the one before."""

    node: Document
    level: int
    row: int
    parent_row: int


def prefixes(document: Document) -> Chart | None:
    """None where requests share nothing."""
    nodes = document["prefix_tree"]
    if not nodes:
        return None
    best = max(nodes, key=lambda node: node["hit_tokens"])
    placed = list(_placed(nodes))
    return Chart(
        id="prefixes",
        title="Tree of shared prefixes",
        description=(
            f"{len(nodes)} stretches of text that several requests begin with. The one that saves "
            f"most has {whole(best['tokens'])} tokens in {whole(best['requests'])} requests: "
            f"{line(best['label'], 60)}."
        ),
        spec=_spec(_rows(placed), len(placed)),
        table=_table(placed),
    )


def _placed(nodes: list[Document]) -> Iterator[Placed]:
    """Each right below its parent or a sibling; those that save most first."""
    children: defaultdict[Any, list[Document]] = defaultdict(list)
    for node in sorted(nodes, key=lambda node: node["hit_tokens"]):
        children[node["parent"]].append(node)
    waiting = [(node, 0, -1) for node in children[None]]
    row = 0
    while waiting:
        node, level, parent_row = waiting.pop()
        yield Placed(node, level, row, parent_row)
        waiting += [(child, level + 1, row) for child in children[node["id"]]]
        row += 1


def _rows(placed: list[Placed]) -> list[dict[str, Any]]:
    most = max(one.node["hit_tokens"] for one in placed) or 1
    deepest = max(one.node["depth_tokens"] + one.node["tokens"] for one in placed)
    rows = []
    for node, _, row, parent_row in placed:
        start, stop = node["depth_tokens"], node["depth_tokens"] + node["tokens"]
        share = sqrt(stop / deepest / BEYOND)
        room = int((WIDTH - 40) * (1 - share) / CHARACTER)
        rows.append(
            {
                "x": start,
                "x2": stop,
                "y": row,
                "from": parent_row if parent_row >= 0 else row,
                "limit": deepest * BEYOND,
                "saved": 0.3 + 0.7 * node["hit_tokens"] / most,
                "label": _label(node, room),
            }
        )
    return rows


def _label(node: Document, room: int) -> str:
    """As much of it as there is room for."""
    counts = f"{short(node['tokens'])} \N{MULTIPLICATION SIGN} {short(node['requests'])}"
    text = f"{counts}  {line(node['label'])}"
    return text if len(text) <= room else f"{text[: room - 1]}…"


def _spec(rows: list[dict[str, Any]], count: int) -> alt.LayerChart:
    base = drawing(rows, max(3, count) * ROW)
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[count - 0.4, -0.6], nice=False))
    scale = alt.Scale(type="sqrt", domain=[0, rows[0]["limit"]], nice=False)
    x = alt.X("x:Q", title="tokens from the start of the prompt", scale=scale)
    x = x.axis(format=count_format(rows[0]["limit"]), tickCount=8)
    lines = base.mark_rule(color=colour("muted"), opacity=0.6).encode(x=x, y=y, y2="from:Q")
    bars = base.mark_bar(height=ROW - 8, color=colour("hit"), cornerRadius=2).encode(
        x=x,
        x2="x2:Q",
        y=y,
        opacity=alt.Opacity("saved:Q", scale=alt.Scale(domain=[0, 1], range=[0, 1]), legend=None),
    )
    labels = base.mark_text(align="left", baseline="middle", dx=6, color=colour("ink")).encode(
        x=alt.X("x2:Q", scale=scale), y=y, text="label:N"
    )
    return layered(lines, bars, labels)


def _table(placed: list[Placed]) -> Table:
    """Indented by depth."""
    return Table.of(
        "begins with|starts at#|tokens#|requests#|tokens saved#",
        (
            (
                f"{'↳ ' * level}{line(node['label'])}",
                whole(node["depth_tokens"]),
                whole(node["tokens"]),
                whole(node["requests"]),
                whole(node["hit_tokens"]),
            )
            for node, level, _, _ in placed
        ),
    )
