"""The overview for people: how full a tier is, then the runs by model, adapter, salt and dtype."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from itertools import groupby

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from kvtool.cli.inspect_request import InspectRequest
from kvtool.cli.inspect_text import age, count, namespace_line, short_key, table, to_text
from kvtool.cli.output import write, write_json
from kvtool.cli.printable import printable
from kvtool.cli.sizes import format_size
from kvtool.config import EngineConfig
from kvtool.gate.record import GateRecord
from kvtool.gate.records import read_records
from kvtool.inspection.overview import EntrySummary, Overview, TierSummary, overview
from kvtool.tiers.disk.catalog import Catalog

SHOWN_RUNS = 12  # of a namespace, the last used
BAR_WIDTH = 24

_COLUMNS = {
    "key": "left",
    "positions": "left",
    "blocks": "right",
    "size": "right",
    "stored": "right",
    "used": "right",
    "hits": "right",
    "": "left",
}


def show_overview(catalog: Catalog, request: InspectRequest, engine: EngineConfig) -> None:
    """Tiers and runs."""
    found, gates = overview(catalog), read_records(catalog.path)
    if request.format == "json":
        records = [record.as_dict() for record in gates]
        write_json({"tiers": found.tiers, "entries": found.entries, "gates": records})
        return
    write(to_text(*_drawings(found, time.time()), *map(_gate_line, gates)))


def _drawings(found: Overview, now: float) -> list[RenderableType]:
    drawings: list[RenderableType] = [Text(_tier_line(tier)) for tier in found.tiers]
    for number, group in groupby(found.entries, key=lambda entry: entry.namespace["number"]):
        runs = list(group)
        assert number
        drawings += [Text(), _heading(runs), _runs(runs[:SHOWN_RUNS], now)]
        if rest := runs[SHOWN_RUNS:]:
            size = format_size(sum(run.bytes for run in rest))
            drawings.append(Text(f"  … and {count(len(rest), 'more run')} ({size})", style="dim"))
    return drawings


def _gate_line(record: GateRecord) -> RenderableType:
    subject, pooled = record.subject, record.pooled
    what = f"{subject.compute_dtype}, repair {subject.repair}, donor {subject.donor}"
    line = f"gate  {printable(record.model)} {short_key(subject.weights)}, {what}"
    if pooled.kl_mean is not None and pooled.top1_agreement is not None:
        line += f": mean KL {pooled.kl_mean:.4f}, top-1 {pooled.top1_agreement:.3f}"
    return Text(f"{line}, {'passed' if record.passed else 'not passed'}")


def _tier_line(tier: TierSummary) -> str:
    size = format_size(tier.bytes)
    line = f"{tier.name}  {size}"
    if tier.cap_bytes:
        share = tier.bytes / tier.cap_bytes
        bar = "█" * min(BAR_WIDTH, round(share * BAR_WIDTH))
        line += f" of {format_size(tier.cap_bytes)}  {bar:░<{BAR_WIDTH}} {share:.0%}"
    things = (count(tier.entries, "run"), count(tier.blocks, "block"), count(tier.tokens, "token"))
    pinned = f", {format_size(tier.pinned_bytes)} pinned" if tier.pinned_bytes else ""
    return f"{line}  {', '.join(things)}{pinned}\n      {printable(tier.folder)}"


def _heading(runs: Sequence[EntrySummary]) -> Text:
    size = format_size(sum(run.bytes for run in runs))
    tokens = count(sum(run.tokens for run in runs), "token")
    line = Text(namespace_line(runs[0].namespace), style="bold")
    return line.append(f"  {count(len(runs), 'run')}, {tokens}, {size}", style="not bold dim")


def _runs(runs: Sequence[EntrySummary], now: float) -> RenderableType:
    return Padding(table(_COLUMNS, (_row(run, now) for run in runs)), (0, 0, 0, 2))


def _row(run: EntrySummary, now: float) -> tuple[str, ...]:
    notes = ["pinned"] * run.pinned + ["approximate"] * (not run.exact)
    notes += [printable(run.provenance)] * (run.provenance != "prefill")
    return (
        short_key(run.key),
        f"[{run.start}, {run.start + run.tokens})",
        str(run.blocks),
        format_size(run.bytes),
        age(now - _seconds(run.created)),
        age(now - _seconds(run.last_used)),
        str(run.hits),
        ", ".join(notes),
    )


def _seconds(iso: str) -> float:
    return datetime.fromisoformat(iso.replace("Z", "+00:00")).timestamp()
