"""How full the cache was over time, in a bounded number of points."""

from __future__ import annotations

from typing import NamedTuple

from kvtool.cache.manager import CacheManager


class OccupancyPoint(NamedTuple):
    """Blocks that requests held, that were cached beside them, and that were empty."""

    t_s: float
    held: int
    cached: int
    free: int


class Occupancy:
    """Every n-th observation; n doubles whenever the points would become too many."""

    def __init__(self, manager: CacheManager, max_points: int = 512) -> None:
        self.points: list[OccupancyPoint] = []
        self._manager = manager
        self._max_points = max_points
        self._stride = 1
        self._to_skip = 0

    def observe(self, now_s: float) -> None:
        if self._to_skip:
            self._to_skip -= 1
            return
        if len(self.points) == self._max_points:
            del self.points[1::2]
            self._stride *= 2
        self._to_skip = self._stride - 1
        manager = self._manager
        free, available = manager.num_free_blocks, manager.num_available_blocks
        held = manager.num_blocks - available
        self.points.append(OccupancyPoint(now_s, held, available - free, free))
