"""A chart: what it shows in words, as a picture, and as a table."""

from __future__ import annotations

from io import StringIO
from typing import Any, NamedTuple
from xml.etree import ElementTree

import altair as alt
from markupsafe import Markup

from kvtool.report.charts.palette import colour
from kvtool.report.table import Table

WIDTH = 780
PADDING = {"left": 20, "right": 6, "top": 4, "bottom": 4}  # the page's letters may be wider
_DROPPED = ("aria-", "role", "pointer-events", "class")


def drawing(rows: list[dict[str, Any]], height: float | alt.Step) -> alt.Chart:
    """Data in the page itself."""
    return alt.Chart(alt.InlineData(rows), height=height)


def layered(*layers: alt.Chart) -> alt.LayerChart:
    """From the bottom."""
    found = alt.layer(*layers)
    assert isinstance(found, alt.LayerChart)
    return found


def count_format(largest: float) -> str:
    """Of an axis that counts: whole numbers, thousands and millions where they are many."""
    return ",.0f" if largest < 10_000 else "~s"


class Chart(NamedTuple):
    """id: unique in the page. description: for those who do not see the picture."""

    id: str
    title: str
    description: str
    spec: alt.Chart | alt.LayerChart
    table: Table

    def svg(self) -> Markup:
        """To stand inside a page: of any width, with a title and a description."""
        file = StringIO()
        _themed(self.spec).save(file, format="svg")
        root = ElementTree.fromstring(file.getvalue())
        for element in root.iter():
            element.tag = element.tag.rpartition("}")[2]
            _keep_own(element, self.id)
        del root.attrib["width"], root.attrib["height"], root.attrib["version"]
        names = [f"{self.id}-title", f"{self.id}-description"]
        root.attrib |= {"role": "img", "aria-labelledby": " ".join(names)}
        for place, (tag, text) in enumerate((("title", self.title), ("desc", self.description))):
            element = ElementTree.Element(tag, id=names[place])
            element.text = text
            root.insert(place, element)
        return Markup(ElementTree.tostring(root, encoding="unicode"))


def _keep_own(element: ElementTree.Element, chart: str) -> None:
    """Its parts have no meaning of their own, and ids must not meet those of other charts."""
    for name, value in list(element.attrib.items()):
        if name.startswith(_DROPPED):
            del element.attrib[name]
        elif name == "id":
            element.attrib[name] = f"{chart}-{value}"
        elif value.startswith("url(#"):
            element.attrib[name] = value.replace("url(#", f"url(#{chart}-")


def _themed(spec: alt.Chart | alt.LayerChart) -> alt.Chart | alt.LayerChart:
    """Letters and lines in the page's colours; a picture is as wide as the page's text."""
    ink, muted, grid = colour("ink"), colour("muted"), colour("grid")
    axis = alt.AxisConfig(
        labelColor=muted,
        titleColor=muted,
        titleFontWeight="normal",
        labelFontSize=12,
        titleFontSize=12,
        titlePadding=10,
        gridColor=grid,
        domainColor=muted,
        tickColor=grid,
        labelOverlap="greedy",
        labelSeparation=16,
    )
    legend = alt.LegendConfig(
        labelColor=ink,
        titleColor=muted,
        titleFontWeight="normal",
        labelFontSize=12,
        orient="top",
        direction="horizontal",
        columns=6,
        symbolStrokeWidth=2,
        labelLimit=0,
    )
    themed: alt.Chart | alt.LayerChart = spec.properties(
        autosize=alt.AutoSizeParams(type="fit-x", contains="padding"), width=WIDTH, padding=PADDING
    ).configure(
        aria=False,
        background="transparent",
        axis=axis,
        legend=legend,
        view=alt.ViewConfig(stroke=None),
        text=alt.MarkConfig(color=ink, fontSize=12),
    )
    return themed
