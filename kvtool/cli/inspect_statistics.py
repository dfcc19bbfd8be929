"""`--stats`: the K and V of each layer in numbers, drawn on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from kvtool.cli.inspect_progress import counted_progress
from kvtool.cli.inspect_request import InspectRequest
from kvtool.cli.inspect_text import count, namespace_line, short_key, table, to_text
from kvtool.cli.output import warn, write, write_json
from kvtool.cli.printable import printable
from kvtool.config import EngineConfig
from kvtool.drawing.file import check_ending
from kvtool.errors import CacheError, ConfigError
from kvtool.inspection.heat_map import write_heat_map
from kvtool.inspection.kv_statistics import KVStatistics, kv_statistics
from kvtool.inspection.namespaces import StoredNamespace, stored_namespaces
from kvtool.inspection.part_statistics import PartStatistics
from kvtool.inspection.run_chain import chain_to
from kvtool.tiers.disk.catalog import Catalog
from kvtool.tiers.disk.entry import Entry

Found = list[tuple[StoredNamespace, KVStatistics]]

_COLUMNS = {
    "layer": "right",
    "part": "left",
    "mean": "right",
    "std": "right",
    "largest": "right",
    "norm by head": "right",
    "token 0": "right",
    "outliers": "left",
    "": "left",
}


def show_statistics(catalog: Catalog, request: InspectRequest, engine: EngineConfig) -> None:
    """Of all runs, or of the sequence that ends with --key."""
    plot = None if request.plot is None else Path(request.plot)
    if plot is not None:
        check_ending(plot)
    chosen = _chosen(catalog, request.key)
    namespaces = stored_namespaces(chosen)
    if plot is not None and len(namespaces) > 1:
        raise ConfigError(
            f"--plot draws one namespace; {len(namespaces)} are stored.",
            hint="Name a run of one of them with --key.",
        )
    found: Found = []
    with counted_progress("Reading KV") as progress:
        for namespace in namespaces:
            runs = [entry for entry in chosen if entry.namespace == namespace.digest]
            found.append((namespace, kv_statistics(catalog, runs, progress)))
    for _, statistics in found:
        for key, reason in statistics.unreadable:
            warn(f"{short_key(key)} is left out: {printable(reason)}.")
    if plot is not None:
        write_heat_map(plot, found[0][1], namespace_line(found[0][0].as_dict()))
    _show(found, request.format)


def _chosen(catalog: Catalog, key: str | None) -> Sequence[Entry]:
    """All runs, or those of the sequence that ends with run `key`."""
    if key is not None:
        return [link.entry for link in chain_to(catalog, catalog.find(key))]
    entries = catalog.entries()
    if not entries:
        raise CacheError("Nothing is stored.", hint="kvtool prefill FILE")
    return entries


def _show(found: Found, format: str) -> None:
    if format == "json":
        rows = [{"namespace": n.as_dict(), **statistics.as_dict()} for n, statistics in found]
        write_json({"statistics": rows})
        return
    write(to_text(*(drawing for one in found for drawing in _drawings(*one))))


def _drawings(namespace: StoredNamespace, statistics: KVStatistics) -> Iterator[RenderableType]:
    things = count(statistics.num_tokens, "token"), count(statistics.num_blocks, "block")
    yield Text(f"{namespace_line(namespace.as_dict())}  {', '.join(things)}", style="bold")
    rows = (
        _row(part, first=number == 0)
        for _, parts in groupby(statistics.parts, key=lambda part: part.layer)
        for number, part in enumerate(parts)
    )
    yield table(_COLUMNS, rows)


def _row(part: PartStatistics, *, first: bool) -> tuple[str, ...]:
    broken = [f"{part.nan:,} NaN"] * (part.nan > 0) + [f"{part.inf:,} Inf"] * (part.inf > 0)
    channels = [f"{o.head}/{o.channel} x{o.ratio:.0f}" for o in part.outliers[:2]]
    more = part.num_outliers - len(channels)
    return (
        str(part.layer) if first else "",
        part.part,
        f"{part.mean:.3g}",
        f"{part.std:.3g}",
        f"{part.abs_max:.3g}",
        f"{min(part.head_norms):.3g} … {max(part.head_norms):.3g}",
        "" if part.first_norm is None else f"x{part.first_norm:.2g}",
        ", ".join(channels) + (f" and {more} more" if more > 0 else ""),
        ", ".join(broken),
    )
