"""What can be reused at all: hit rates, capacities, schemes, memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from kvtool.cli.printable import printable
from kvtool.cli.simulate_drawing import bar, note, number, percent, section, spark, table
from kvtool.cli.sizes import format_size

SPARK_WIDTH = 48

Row = Mapping[str, Any]


def rates_section(document: Row) -> RenderableType | None:
    """The definition that kvtool's own hit rate has is in bold."""
    rates = document["hit_rates"]
    if rates is None:
        return None
    header = {"definition": "left", "rate": "right", "": "left", "of": "right", "means": "text"}
    return section(
        "Hit rates of a cache that never evicts, by whole blocks",
        table(header, (_rate(name, rate) for name, rate in rates.items())),
    )


def _rate(name: str, rate: Row) -> Iterator[RenderableType]:
    who = [one.split(" (")[0] for one in rate["reported_by"]]
    yield Text(name, style="bold" if "kvtool" in who else "")
    yield percent(rate["value"])
    yield bar(rate["value"])
    yield f"{number(rate['numerator'])} / {number(rate['denominator'])}"
    reported = f" [same formula: {', '.join(who)}]" if who else ""
    yield Text(rate["definition"] + reported)


def capacity_section(document: Row) -> RenderableType | None:
    rows, curve = document["curve"], document["lru_curve"]
    if not curve:
        return None
    policies = [name for name in rows[0] if not name.startswith("capacity_")]
    header = {"blocks": "right", "tokens": "right"}
    header |= {"bytes": "right"} if rows[0]["capacity_bytes"] else {}
    header |= dict.fromkeys(policies, "right")
    needed = document["capacity_for"].items()
    shares = ", ".join(f"{float(share):.0%} {number(blocks)}" for share, blocks in needed)
    return section(
        "Token hit rate by capacity and eviction",
        _curve(curve),
        table(header, (_capacity(row, policies) for row in rows)),
        note(f"blocks that LRU needs for a share of what can hit at all: {shares}"),
    )


def _capacity(row: Row, policies: Sequence[str]) -> Iterator[str]:
    yield f"{row['capacity_blocks']:,}"
    yield f"{row['capacity_tokens']:,}"
    if row["capacity_bytes"]:
        yield format_size(row["capacity_bytes"])
    for policy in policies:
        yield percent(row[policy]["token"])


def _curve(curve: Sequence[Row]) -> Text:
    """LRU, capacity on a logarithmic axis."""
    capacities = [point["capacity_blocks"] for point in curve]
    first, last, top = capacities[0], capacities[-1], curve[-1]["token"]
    steps = [first * (last / first) ** (i / (SPARK_WIDTH - 1)) for i in range(SPARK_WIDTH)]
    steps[-1] = last
    found = [bisect_right(capacities, step + 1e-9) - 1 for step in steps]
    values = [curve[max(0, i)]["token"] for i in found]
    left, right = f"  LRU, {first:,} blocks ", f" {last:,} blocks: {percent(top)}"
    return Text(left, style="dim").append(spark(values, top)).append(right)


def schemes_section(document: Row) -> RenderableType | None:
    schemes = document["schemes"]
    if not schemes:
        return None
    header = {"scheme": "left", "found": "right", "net": "right", "": "left", "finds": "text"}
    known = [row for row in schemes if row["measurable"]]
    unknown = [row for row in schemes if not row["measurable"]]
    return section(
        "Reuse schemes without a limit; net: less what repair computes again",
        table(header, (_scheme(row) for row in known)),
        *(note(f"{row['scheme']}: {printable(row['reason'])}") for row in unknown),
    )


def _scheme(row: Row) -> Iterator[RenderableType]:
    yield row["scheme"]
    yield percent(row["token_rate"])
    yield percent(row["net_token_rate"])
    yield bar(row["net_token_rate"])
    moved = f"; {row['moved_tokens']:,} tokens moved" if row["moved_tokens"] else ""
    size = f"; {format_size(row['extra_bytes'])} of index" if row["extra_bytes"] else ""
    yield f"{row['definition']}{moved}{size}"


def memory_section(document: Row) -> RenderableType | None:
    memory = document["memory"]
    most = max((row["peak_tokens"] for row in memory["layouts"]), default=0)
    header = {"layout": "left", "peak": "right", "": "left", "means": "text"}
    return section(
        f"Memory, {memory['concurrency']:,} requests at a time",
        table(header, (_layout(row, most) for row in memory["layouts"])),
    )


def _layout(row: Row, most: int) -> Iterator[RenderableType]:
    size = row["peak_bytes"]
    yield row["layout"]
    yield format_size(size) if size else f"{row['peak_tokens']:,} tokens"
    yield bar(row["peak_tokens"] / most if most else None, "magenta")
    yield row["definition"]
