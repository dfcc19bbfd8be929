"""Why the rest missed, who it belongs to, and what to change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from kvtool.cli.inspect_text import shortened
from kvtool.cli.printable import printable
from kvtool.cli.simulate_drawing import bar, note, percent, section, table

SHOWN_SESSIONS = 8
SHOWN_PREFIXES = 12
LABEL_WIDTH = 60

Row = Mapping[str, Any]


def causes_section(document: Row) -> RenderableType | None:
    misses = document["misses"]
    if misses is None or not misses["total_tokens"]:
        return None
    total, recoverable = misses["total_tokens"], misses["recoverable_by_shift_tokens"]
    found = [(name, tokens) for name, tokens in misses["causes"].items() if tokens]
    rows = (
        (name, f"{tokens:,}", percent(tokens / total), bar(tokens / total, "red"), means)
        for name, tokens in sorted(found, key=lambda item: -item[1])
        for means in [misses["definitions"][name]]
    )
    header = {"cause": "left", "tokens": "right", "share": "right", "": "left", "means": "text"}
    lines: list[RenderableType] = [table(header, rows)]
    if recoverable and document["effective"]["reuse"] != "none":
        lines.append(
            note(
                f"{recoverable:,} of them ({percent(recoverable / total)}) had been seen at another "
                "position, as if nothing were evicted: an estimate, not a replay of --reuse shift"
            )
        )
    return section(f"Why {total:,} tokens missed", *lines)


def sessions_section(document: Row) -> RenderableType | None:
    rows = document["sessions"]
    if not any(row["session"] is not None for row in rows):
        return None
    repairs = any(row["recomputed_tokens"] for row in rows)
    header = {"session": "left", "requests": "right", "prompt": "right", "computed": "right"}
    header |= {"moved, again": "right"} if repairs else {}
    header |= {"hit rate": "right", "": "left", "most missed by": "left"}
    more = [note(f"and {len(rows) - SHOWN_SESSIONS:,} more")] if len(rows) > SHOWN_SESSIONS else []
    drawn = table(header, (_session(row, repairs) for row in rows[:SHOWN_SESSIONS]))
    return section("Sessions that computed most", drawn, *more)


def _session(row: Row, repairs: bool) -> Iterator[RenderableType]:
    """repairs: of moved text, some tokens of some session were computed again."""
    name, missed = row["session"], row["missed_by_cause"]
    yield "(none)" if name is None else shortened(printable(name), LABEL_WIDTH // 2)
    yield f"{row['requests']:,}"
    yield f"{row['prompt_tokens']:,}"
    yield f"{row['computed_tokens']:,}"
    if repairs:
        yield f"{row['recomputed_tokens']:,}"
    yield percent(row["hit_rate"])
    yield bar(row["hit_rate"], "green")
    yield max(missed, key=missed.__getitem__) if missed else ""


def prefixes_section(document: Row) -> RenderableType | None:
    """A prefix that is shown stands behind those in front of it."""
    nodes = document["prefix_tree"][:SHOWN_PREFIXES]
    if not nodes:
        return None
    header = {"prefix": "left", "tokens": "right", "requests": "right", "saves": "right"}
    return section("Shared prefixes", table(header, _prefixes(nodes)))


def _prefixes(nodes: list[Row]) -> Iterator[tuple[RenderableType, ...]]:
    children: dict[int | None, list[Row]] = {}
    for node in nodes:
        children.setdefault(node["parent"], []).append(node)
    open_nodes = [(0, node) for node in reversed(children.get(None, []))]
    while open_nodes:
        depth, node = open_nodes.pop()
        label = shortened(printable(node["label"]), LABEL_WIDTH - 2 * depth)
        counts = (f"{node[key]:,}" for key in ("tokens", "requests", "hit_tokens"))
        yield f"{'  ' * (depth - 1)}{'└ ' * (depth > 0)}{label}", *counts
        open_nodes += [(depth + 1, child) for child in reversed(children.get(node["id"], []))]


def advice_section(document: Row) -> RenderableType | None:
    if not document["advice"]:
        return None
    lines = [line for one in document["advice"] for line in _advice(one)]
    return section("Advice, each replayed at the same capacity", *lines)


def _advice(one: Row) -> Iterator[RenderableType]:
    before, after = one["before"], one["after"]
    rates = f"{percent(before['reused_rate'])} → {percent(after['reused_rate'])}"
    gain = Text(f"  {one['gain_tokens']:,} tokens", style="bold green")
    yield gain.append(f"  {printable(one['title'])} ({rates})", style="not bold default")
    if before["shifted_tokens"] != after["shifted_tokens"]:
        yield note(
            f"exact hits {before['hit_tokens']:,} → {after['hit_tokens']:,} tokens; moved text, "
            f"which is approximate, {before['shifted_tokens']:,} → {after['shifted_tokens']:,}",
            2,
        )
    yield note(printable(one["why"]), 2)
    if one.get("command"):
        yield note(printable(one["command"]), 2)
