"""How many hits an LRU cache of each capacity has, and the capacity a share of them takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from kvtool.analysis.accesses import Accesses, Ints
from kvtool.analysis.stack_distances import NEVER, stack_distances

SHARES = ("0.90", "0.95", "0.99")


@dataclass(frozen=True, slots=True, eq=False)
class LruCurve:
    """hit_blocks[k], hit_tokens[k]: with capacities[k] blocks and up to the next capacity.

    capacities: int64, ascending; one where the hits change, none where nothing ever hits.
    """

    capacities: Ints
    hit_blocks: Ints
    hit_tokens: Ints

    @property
    def ceiling(self) -> int:
        """Hit blocks of a cache that never evicts."""
        return int(self.hit_blocks[-1]) if len(self.hit_blocks) else 0

    def at(self, capacity: int) -> tuple[int, int]:
        """(hit blocks, hit tokens) with so many blocks."""
        k = int(np.searchsorted(self.capacities, capacity, side="right")) - 1
        return (int(self.hit_blocks[k]), int(self.hit_tokens[k])) if k >= 0 else (0, 0)

    def capacity_for(self, share: str | Fraction) -> int | None:
        """The fewest blocks with at least this share of the ceiling's hit blocks; None where
        nothing ever hits. share: in (0, 1], as text exactly."""
        wanted = ceil(Fraction(share) * self.ceiling)
        return int(self.capacities[np.searchsorted(self.hit_blocks, wanted)]) if wanted else None

    def capacities_for(self, shares: Sequence[str] = SHARES) -> dict[str, int | None]:
        return {share: self.capacity_for(share) for share in shares}


def lru_curve(accesses: Accesses, distances: Ints | None = None) -> LruCurve:
    """distances: of `stack_distances`, where they are known already."""
    if distances is None:
        distances = stack_distances(accesses)
    order = np.argsort(distances, kind="stable")
    order = order[distances[order] != NEVER]
    ordered = distances[order]
    changes = np.flatnonzero(np.diff(ordered, append=NEVER))
    hit_tokens = np.cumsum(accesses.tokens[order])
    return LruCurve(ordered[changes], changes + 1, hit_tokens[changes])
