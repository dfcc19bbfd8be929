"""The page: everything of the document is there, escaped, and nothing is loaded from anywhere."""

from __future__ import annotations

import copy
import importlib.util
import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from report.replayed import TRACES, simulated

from kvtool.config import EngineConfig
from kvtool.errors import ConfigError
from kvtool.report.charts.causes import cause_totals
from kvtool.report.charts.hit_curve import hit_curve
from kvtool.report.charts.palette import PALETTE
from kvtool.report.charts.prefixes import prefixes
from kvtool.report.charts.thinning import MAX_POINTS, thinned
from kvtool.report.html import write_report
from kvtool.report.wording import clean, line, percent, seconds, short, size
from kvtool.simulation.document import document
from kvtool.traces.open_trace import open_trace

EVIL = "</td></style></svg><script>alert('x')</script><img src=http://evil.example/ onerror=a()>"
VOID = {"meta", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """What is in a page, and whether its elements close."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """A document with every part: by hand, where this trace has none."""
    options = {"capacities": (20, 60), "engine": EngineConfig(kv_blocks=70)}
    first = next(iter(open_trace([TRACES / "append.jsonl"]))).id
    made = document(simulated(TRACES / "append.jsonl", explain=first, **options))
    made["advice"] = document(simulated(TRACES / "agents.jsonl"))["advice"]
    row = {"id": "r", "place": "f:1", "likely": "ttl", "idle_s": 400.0, "error_pp": -20.0}
    rates = {"recorded_tokens": 1, "recorded_rate": 0.5, "predicted_tokens": 1}
    candidate = {"name": "replay", "hit_tokens": 5, "rate": 0.4, "error_pp": -10.0}
    made["calibration"] = {
        "requests": 3,
        "recorded": {"cached_tokens": 5, "prompt_tokens": 10, "rate": 0.5},
        "predicted": {"cached_tokens": 4, "prompt_tokens": 10, "rate": 0.4},
        "error_pp": -10.0,
        "mean_abs_error_pp": 10.0,
        "left_out": None,
        "candidates": [candidate | {"mean_abs_error_pp": 10.0, "best": True}],
        "disagreeing": [row | rates | {"predicted_rate": 0.3}],
    }
    usage = ("prompt", "cached", "shifted", "recomputed", "computed", "completion")
    counts = {f"{name}_tokens": 7 for name in usage}
    verify = {"kl_mean": 1e-5, "top1_agreement": 1.0, "max_abs_logit_diff": 0.01, "verdict": "same"}
    made["engine"] = {
        "model": "demo",
        "usage": counts,
        "ttft_ms": {"mean": 10.0, "p50": 9.0, "p90": 12.0, "p99": 15.0},
        "quality": verify | {"verdicts": {"same": 3}},
        "requests": [{"id": "r", "ttft_ms": 10.0, "total_ms": 20.0, "verify": verify} | counts],
    }
    return made


def written(found: dict[str, Any], folder: Path) -> str:
    path = folder / "report.html"
    write_report(found, path)
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def text(found: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(found, tmp_path_factory.mktemp("page"))


def test_every_part_is_there(text: str) -> None:
    ids = {section["id"] for section in Page(text).all("section") if "id" in section}
    assert ids == {
        *("explain", "misses", "advice", "rates", "cache", "sharing", "sessions"),
        *("schemes", "memory", "engine", "calibration", "about"),
    }


def test_every_chart_has_words_and_a_table(text: str) -> None:
    page = Page(text)
    charts = page.all("svg")
    assert len(charts) == len(page.all("figure")) == 7
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for chart in charts:
        title, description = (chart["aria-labelledby"] or "").split()
        assert chart["role"] == "img" and {title, description} <= set(ids)
    figures = re.findall(r"<figure>.*?</figure>", text, re.S)
    assert all("<details><summary>Data of this chart" in figure for figure in figures)
    assert all("<table>" in figure for figure in figures)


def test_nothing_is_loaded_and_nothing_runs(text: str) -> None:
    page = Page(text)
    policy = next(m["content"] for m in page.all("meta") if "http-equiv" in m)
    assert policy is not None and policy.startswith("default-src 'none'; style-src 'unsafe-inline'")
    assert not page.all("script") and not page.all("img") and not page.all("iframe")
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")], tag
        for name in ("src", "href", "xlink:href", "action"):
            assert (attributes.get(name) or "#").startswith(("#", "data:")), (tag, attributes)
    assert not re.search(r"@import|url\((?!#)", text)
    assert not page.open


def test_it_can_be_walked_without_a_mouse(text: str) -> None:
    page = Page(text)
    assert page.tags[0] == ("html", {"lang": "en"})
    assert [len(page.all(tag)) for tag in ("h1", "main", "header", "nav", "footer")] == [1] * 5
    links = {a["href"] for a in page.all("a")}
    targets = {f"#{attributes['id']}" for _, attributes in page.tags if "id" in attributes}
    assert "#main" in links and links <= targets
    regions = [attributes for _, attributes in page.tags if attributes.get("role") == "region"]
    assert regions and all(r["tabindex"] == "0" and r["aria-label"] for r in regions)
    assert len(page.all("caption")) == len(page.all("table"))
    assert all("scope" in cell for cell in page.all("th"))
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_figures_are_those_of_the_document(found: dict[str, Any], text: str) -> None:
    replay, misses = found["replay"], found["misses"]
    assert percent(replay["hit_rate"]) in text
    assert f"{misses['total_tokens']:,} prompt tokens were not found" in text
    for one in found["advice"]:
        assert f"{one['gain_tokens']:,} tokens fewer to compute" in text
    for name in found["invariants"]:
        assert name.replace("_", " ") in text
    for row in found["sessions"]:
        assert row["session"] in text


def evil(value: Any) -> Any:
    """Every text of a document replaced."""
    if isinstance(value, dict):
        return {key: evil(part) for key, part in value.items()}
    if isinstance(value, list):
        return [evil(part) for part in value]
    return EVIL if isinstance(value, str) else value


def test_text_from_the_trace_stays_text(found: dict[str, Any], tmp_path: Path) -> None:
    bad = evil(copy.deepcopy(found)) | {"schemes": found["schemes"], "memory": found["memory"]}
    bad["replay"] = found["replay"]
    bad["unanswered"] = {EVIL: EVIL}
    bad["invariants"], bad["invariant_details"] = {EVIL: False}, {EVIL: EVIL}
    page = Page(text := written(bad, tmp_path))
    assert not page.all("script") and not page.all("img") and not page.open
    assert "&lt;script&gt;" in text and "evil.example" in text


def test_characters_that_break_a_page_are_replaced(found: dict[str, Any], tmp_path: Path) -> None:
    odd = copy.deepcopy(found)
    odd["prefix_tree"][0]["label"] = "a\x00b\ud800c\u202ed\x1b[31m"
    odd["sessions"][0]["session"] = "\x07\udfff\ufffe"
    text = written(odd, tmp_path)
    assert not re.search("[\x00\x07\x1b\u202e\ufffe]", text)
    assert "a\ufffdb\ufffdc\ufffdd\ufffd[31m" in text


@pytest.mark.parametrize("part", ["misses", "replay", "hit_rates", "memory", "capacity_for"])
def test_a_part_without_an_answer_is_left_out(
    part: str, found: dict[str, Any], tmp_path: Path
) -> None:
    page = Page(written(found | {part: None, "unanswered": {part: "nobody knows"}}, tmp_path))
    assert not page.open


def test_a_trace_of_lengths(tmp_path: Path) -> None:
    path = tmp_path / "lengths.jsonl"
    rows = [{"timestamp": 9 * n, "input_length": 40 + n, "output_length": 2} for n in range(5)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = written(document(simulated(path)), tmp_path)
    ids = {section.get("id") for section in Page(text).all("section")}
    assert {"cache", "memory", "about"} <= ids and not {"misses", "rates"} & ids
    assert "the trace has lengths only" in text


def test_a_cache_that_cannot_hold_a_request(tmp_path: Path) -> None:
    refused = simulated(TRACES / "append.jsonl", engine=EngineConfig(kv_blocks=2))
    ids = {
        section.get("id") for section in Page(written(document(refused), tmp_path)).all("section")
    }
    assert {"rates", "sharing", "about"} <= ids and not {"cache", "misses"} & ids


def test_one_request_alone(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps({"messages": [{"role": "user", "content": "Hello"}], "model": "m"}))
    text = written(document(simulated(path)), tmp_path)
    assert "no cache of any size helps" in text and "No two requests begin" in text


def test_a_missing_extra_is_named(
    found: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        "kvtool.report.extra.find_spec", lambda name: None if name == "altair" else real(name)
    )
    with pytest.raises(ConfigError, match="altair") as error:
        write_report(found, tmp_path / "out.html")
    assert error.value.hint == "pip install 'kvtool[report]'"
    assert not list(tmp_path.iterdir())


def test_a_long_curve_is_thinned(found: dict[str, Any]) -> None:
    rows = [
        {"capacity_blocks": n, "block": n / 60_000, "token": n / 60_000} for n in range(1, 50_001)
    ]
    chart = hit_curve(found | {"lru_curve": rows})
    assert chart is not None and len(chart.table.rows) <= MAX_POINTS
    assert (chart.table.rows[0][0], chart.table.rows[-1][0]) == ("1", "50,000")
    drawn = max(re.findall(r' d="([^"]*)"', chart.svg()), key=len)
    assert drawn.count("L") <= 4 * MAX_POINTS  # two corners a step, there and back


def test_thinned_keeps_the_shape() -> None:
    points = [(n / 1e5, (n / 1e5) ** 3) for n in range(100_001)]
    kept = thinned(points, 100)
    assert kept[0] == 0 and kept[-1] == 100_000 and len(kept) <= 100
    for before, after in pairwise(kept):
        (x0, y0), (x1, y1) = points[before], points[after]
        assert (x1 - x0) + (y1 - y0) <= 2 / 49 + 1e-4
    assert thinned(points[:50], 100) == list(range(50))
    assert len(thinned([(0.0, 0.0)] * 500, 100)) <= 100


def test_a_wide_tree_keeps_inside_its_parents(found: dict[str, Any]) -> None:
    chart = prefixes(found)
    assert chart is not None
    names = [row[0] for row in chart.table.rows]
    assert any(name.startswith("↳ ") for name in names)


def test_causes_are_drawn_by_size(found: dict[str, Any]) -> None:
    chart = cause_totals(found)
    assert chart is not None
    svg = chart.svg()
    worst = max(found["misses"]["causes"].items(), key=lambda item: item[1])[0]
    assert f"var(--{worst}, {PALETTE[worst].light})" in svg


def luminance(colour: str) -> float:
    """WCAG 2.2, relative luminance."""
    parts = [part / 255 for part in bytes.fromhex(colour[1:])]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_stand_out(theme: str) -> None:
    paper = getattr(PALETTE["paper"], theme)
    for name, colour in PALETTE.items():
        if name in ("paper", "grid", "free"):  # carry no meaning of their own
            continue
        is_text = name in ("ink", "muted", "accent", "hit", "capacity")
        assert contrast(getattr(colour, theme), paper) >= (4.5 if is_text else 3.0), name


def test_words() -> None:
    assert percent(None) == "\N{EN DASH}" and percent(0.12345) == "12.35 %"
    assert short(12_345_678) == "12.3 M" and short(999) == "999"
    assert size(2**31) == "2 GiB" and seconds(0.0123) == "12.3 ms" and seconds(7200) == "2 h"
    assert line("a\n  b\x00") == "a b\ufffd" and len(line("x" * 999, 50)) == 50
    assert clean("tab\tand\nline") == "tab\tand\nline"
