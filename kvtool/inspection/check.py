"""Is everything that the cache folder holds what it says it is?"""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.tiers.disk.catalog import Catalog, Progress
from kvtool.tiers.disk.entry import FOREIGN, Damage

INDEX = "index"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """ok: nothing is wrong; a file that is not the cache's is named and does no harm. checked:
    runs that were read. unreachable: runs whose head is gone; no damage, no use."""

    ok: bool
    checked: int
    damaged: tuple[dict[str, str], ...]
    unreachable: int


def check(catalog: Catalog, progress: Progress | None = None) -> CheckReport:
    """Reads every file. Changes nothing."""
    damaged = [*catalog.check(progress), *_wrong_sums(catalog)]
    return CheckReport(
        ok=all(damage.reason == FOREIGN for damage in damaged),
        checked=catalog.totals().entries,
        damaged=tuple(damage._asdict() for damage in damaged),
        unreachable=len(catalog.unreachable()),
    )


def _wrong_sums(catalog: Catalog) -> list[Damage]:
    """The totals must be the sums over the runs."""
    totals, entries = catalog.totals(), catalog.entries()
    sums = {
        "entries": len(entries),
        "blocks": sum(entry.num_blocks for entry in entries),
        "tokens": sum(entry.num_tokens for entry in entries),
        "bytes": sum(entry.num_bytes for entry in entries),
        "pinned_bytes": sum(entry.num_bytes for entry in entries if entry.pinned),
    }
    return [
        Damage(INDEX, f"it counts {getattr(totals, name)} {name}, its runs are {value}")
        for name, value in sums.items()
        if getattr(totals, name) != value
    ]
