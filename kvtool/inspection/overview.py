"""What is stored: totals of a tier and one line for each run of blocks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

from kvtool.inspection.namespaces import stored_namespaces
from kvtool.tiers.disk.catalog import Catalog
from kvtool.tiers.disk.entry import Entry

DISK = "disk"
_LAST_SECOND = 253402300799.0  # of the year 9999


@dataclass(frozen=True, slots=True, kw_only=True)
class TierSummary:
    """cap_bytes: what the tier may hold at most, None where that is not known."""

    name: str
    folder: str
    entries: int
    blocks: int
    tokens: int
    bytes: int
    cap_bytes: int | None
    pinned_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EntrySummary:
    """A run of blocks. start: position of its first token. Times are UTC, ISO 8601."""

    key: str
    namespace: dict[str, object]
    start: int
    tokens: int
    blocks: int
    bytes: int
    tier: str
    created: str
    last_used: str
    hits: int
    pinned: bool
    exact: bool
    provenance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    tiers: tuple[TierSummary, ...]
    entries: tuple[EntrySummary, ...]


def overview(catalog: Catalog) -> Overview:
    """Entries by namespace, the last used first."""
    entries = catalog.entries()
    shown = {space.digest: space.as_dict() for space in stored_namespaces(entries)}
    numbers = {digest: number for number, digest in enumerate(shown)}
    entries.sort(key=lambda entry: (numbers[entry.namespace], -entry.last_used, entry.key))
    return Overview(
        tiers=(disk_summary(catalog),),
        entries=tuple(entry_summary(entry, shown[entry.namespace]) for entry in entries),
    )


def disk_summary(catalog: Catalog) -> TierSummary:
    totals = catalog.totals()
    return TierSummary(
        name=DISK,
        folder=str(catalog.path),
        entries=totals.entries,
        blocks=totals.blocks,
        tokens=totals.tokens,
        bytes=totals.bytes,
        cap_bytes=totals.cap_bytes,
        pinned_bytes=totals.pinned_bytes,
    )


def entry_summary(entry: Entry, namespace: dict[str, object]) -> EntrySummary:
    return EntrySummary(
        key=entry.key,
        namespace=namespace,
        start=entry.home,
        tokens=entry.num_tokens,
        blocks=entry.num_blocks,
        bytes=entry.num_bytes,
        tier=DISK,
        created=iso_time(entry.created),
        last_used=iso_time(entry.last_used),
        hits=entry.hits,
        pinned=entry.pinned,
        exact=entry.exact,
        provenance=entry.provenance,
    )


def iso_time(seconds: float) -> str:
    """UTC to the second; a time that no calendar has is the nearest that one has."""
    shown = min(max(seconds, 0.0), _LAST_SECOND)
    return datetime.fromtimestamp(shown, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
