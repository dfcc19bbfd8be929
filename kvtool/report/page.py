"""The page as HTML, from the document of a simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import kvtool
from kvtool.report import wording
from kvtool.report.charts.causes import cause_totals, causes_over_time
from kvtool.report.charts.chart import Chart
from kvtool.report.charts.hit_curve import hit_curve
from kvtool.report.charts.memory import memory
from kvtool.report.charts.occupancy import occupancy
from kvtool.report.charts.palette import colour, variables
from kvtool.report.charts.prefixes import prefixes
from kvtool.report.charts.schemes import schemes

Document = Mapping[str, Any]

CHARTS: tuple[Callable[[Document], Chart | None], ...] = (
    hit_curve,
    cause_totals,
    causes_over_time,
    occupancy,
    prefixes,
    schemes,
    memory,
)


def page(document: Document) -> str:
    """All that comes from the trace is escaped; no script, and nothing is loaded from anywhere."""
    charts = (build(document) for build in CHARTS)
    figures = {chart.id: chart for chart in charts if chart is not None}
    return (
        _environment()
        .get_template("page.html.j2")
        .render(d=document, figures=figures, version=kvtool.__version__)
    )


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("kvtool.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    names = ("percent", "points", "whole", "short", "size", "seconds", "named", "line")
    environment.filters |= {name: getattr(wording, name) for name in names}
    environment.filters |= {"diff": _diff, "take": _take, "option": _option}
    environment.globals |= {"colour": colour, "palette": lambda theme: Markup(variables(theme))}
    return environment


def _printable(value: object) -> object:
    return wording.clean(value) if type(value) is str else value


def _take(values: Any, limit: int) -> list[Any]:
    return list(islice(values, limit))


def _diff(text: str) -> Iterator[tuple[str, str]]:
    """The lines of a unified diff, each with what it is."""
    kinds = {"---": "file", "+++": "file", "@@ ": "place", "-": "del", "+": "ins"}
    for line in text.splitlines():
        yield next((kind for mark, kind in kinds.items() if line.startswith(mark)), "same"), line


def _option(value: object) -> str:
    """A value of an option, as it is given."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return wording.NOTHING if value is None else str(value)
