"""Long series, cut to what a picture can show."""

from __future__ import annotations

from collections.abc import Sequence

MAX_POINTS = 2000

Point = tuple[float, float]


def thinned(points: Sequence[Point], limit: int = MAX_POINTS) -> list[int]:
    """Indices of at most `limit` points of a series that only rises, first and last among them:
    each one left out is near the one kept before it, by a share of the whole of 2 / limit."""
    if len(points) <= limit:
        return list(range(len(points)))
    (left, bottom), (right, top) = points[0], points[-1]
    steps = (limit - 2) / 2
    wide, high = (right - left) / steps or 1.0, (top - bottom) / steps or 1.0
    kept = [0]
    for index, (x, y) in enumerate(points):
        last_x, last_y = points[kept[-1]]
        if (x - last_x) / wide + (y - last_y) / high >= 1:
            kept.append(index)
    return kept if kept[-1] == len(points) - 1 else [*kept, len(points) - 1]
