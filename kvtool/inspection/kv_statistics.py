"""What stored KV looks like in numbers: layer by layer, K and V apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from kvtool.cache.group import GroupSpec
from kvtool.errors import CacheError
from kvtool.inspection.kv_sums import Array, KVSums, position_bins
from kvtool.inspection.part_statistics import PartStatistics, part_statistics
from kvtool.inspection.stored_values import Bits, decoded, stored_bits
from kvtool.tiers.disk.catalog import Catalog
from kvtool.tiers.disk.entry import Entry, RunContents
from kvtool.tiers.tier import Missing

Progress = Callable[[int, int], None]  # blocks done, of how many

PORTION = 1 << 20  # values decoded at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionNorms:
    """norms: mean L2 norm of a head's vector, [num_layers, bins]; NaN where no token is stored.
    broken: where a value is NaN or Inf."""

    part: str
    norms: Array
    broken: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True, kw_only=True)
class KVStatistics:
    """parts: by layer, then K, V (MLA: latent, rope). edges: bin i of `positions` is of the
    positions [edges[i], edges[i + 1]). unreadable: key and reason of runs that were left out."""

    num_tokens: int
    num_blocks: int
    parts: tuple[PartStatistics, ...]
    edges: tuple[int, ...]
    positions: tuple[PositionNorms, ...]
    unreadable: tuple[tuple[str, str], ...]

    def as_dict(self) -> dict[str, object]:
        """JSON-ready."""
        return {
            "tokens": self.num_tokens,
            "blocks": self.num_blocks,
            "parts": [asdict(part) for part in self.parts],
            "position_edges": list(self.edges),
            "position_norms": {p.part: _listed(p.norms) for p in self.positions},
            "unreadable": [{"key": key, "reason": reason} for key, reason in self.unreadable],
        }


def kv_statistics(
    catalog: Catalog, entries: Sequence[Entry], progress: Progress | None = None
) -> KVStatistics:
    """Reads one run at a time; a block that lies in several counts once.

    Raises `CacheError` for entries of several namespaces, or where none can be read.
    """
    if len({entry.namespace for entry in entries}) > 1:
        raise CacheError("The stored runs belong to several namespaces; statistics are for one.")
    reader = _Reader(max((entry.home + entry.num_tokens for entry in entries), default=0))
    total, done = sum(entry.num_blocks for entry in entries), 0
    unreadable = []
    for entry in entries:
        try:
            reader.add(entry, catalog.read(entry))
        except Missing as missing:
            unreadable.append((entry.key, str(missing)))
        done += entry.num_blocks
        if progress:
            progress(done, total)
    if not reader.seen:
        reason = f" {unreadable[0][0]}: {unreadable[0][1]}." if unreadable else ""
        raise CacheError(
            f"No stored KV could be read.{reason}", hint="kvtool inspect-cache --check"
        )
    return reader.statistics(tuple(unreadable))


class _Reader:
    """Sums by group and part; `seen`: keys of the blocks that were counted."""

    def __init__(self, num_positions: int) -> None:
        self.seen: set[bytes] = set()
        self._num_tokens = 0
        self._edges = position_bins(num_positions)
        self._groups: tuple[GroupSpec, ...] = ()
        self._sums: dict[tuple[int, str], KVSums] = {}

    def add(self, entry: Entry, contents: RunContents) -> None:
        self._groups = contents.groups
        fresh = [number for number, key in enumerate(entry.keys) if key not in self.seen]
        new = np.array(fresh, dtype=np.int64)
        self.seen.update(entry.keys)
        offsets = np.arange(contents.block_size)
        for number, (group, kv) in enumerate(zip(contents.groups, contents.kv, strict=True)):
            portion = max(1, PORTION // (group.values_per_token * contents.block_size))
            for start in range(0, len(new), portion):
                blocks = new[start : start + portion]
                slots = (blocks[:, None] * contents.block_size + offsets).ravel()
                slots = slots[slots < entry.num_tokens]
                for part, bits in stored_bits(group, contents.block_size, kv[blocks]).items():
                    rows = _by_token(bits)[:, :, : len(slots)]
                    sums = self._sums_of(number, part, rows.shape)
                    sums.add(decoded(group.dtype, rows), entry.home + slots)
        lengths = np.minimum(contents.block_size, entry.num_tokens - new * contents.block_size)
        self._num_tokens += int(lengths.sum())

    def _sums_of(self, group: int, part: str, shape: tuple[int, ...]) -> KVSums:
        if (group, part) not in self._sums:
            num_layers, heads, _, dim = shape
            self._sums[group, part] = KVSums(num_layers, heads, dim, self._edges)
        return self._sums[group, part]

    def statistics(self, unreadable: tuple[tuple[str, str], ...]) -> KVStatistics:
        parts = [
            part_statistics(layer, part, self._sums[number, part], row)
            for (number, part) in self._sums
            for row, layer in enumerate(self._groups[number].layers)
        ]
        return KVStatistics(
            num_tokens=self._num_tokens,
            num_blocks=len(self.seen),
            parts=tuple(sorted(parts, key=lambda p: p.layer)),
            edges=tuple(int(edge) for edge in self._edges),
            positions=tuple(
                self._positions(part) for part in dict.fromkeys(p for _, p in self._sums)
            ),
            unreadable=unreadable,
        )

    def _positions(self, part: str) -> PositionNorms:
        num_layers = sum(len(group.layers) for group in self._groups)
        norms = np.full((num_layers, len(self._edges) - 1), np.nan)
        broken = np.zeros(norms.shape, dtype=bool)
        for (number, name), sums in self._sums.items():
            if name == part:
                layers = list(self._groups[number].layers)
                tokens = np.where(sums.binned_tokens == 0, np.nan, sums.binned_tokens)
                norms[layers] = sums.binned_norms / tokens
                broken[layers] = sums.broken
        return PositionNorms(part=part, norms=norms, broken=broken)


def _by_token(bits: Bits) -> Bits:
    """[num_blocks, num_layers, heads, block_size, dim] -> [num_layers, heads, tokens, dim]"""
    _, num_layers, heads, _, dim = bits.shape
    rows: Bits = bits.transpose(1, 2, 0, 3, 4).reshape(num_layers, heads, -1, dim)
    return rows


def _listed(norms: Array) -> list[list[float | None]]:
    return [[None if np.isnan(norm) else float(norm) for norm in row] for row in norms]
