"""Numbers as colours, on a logarithmic scale from light (small) to dark (large).

Lightness falls steadily, so that the order survives a print in grey.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

RAMP = ("#fbf3d9", "#f6c667", "#e8833a", "#b83a4b", "#6b2168", "#1d0f3a")


@dataclass(frozen=True, slots=True)
class ColourScale:
    """low, high: the positive numbers at its ends; what lies beyond gets the colour of the end."""

    low: float
    high: float

    def share(self, number: float) -> float:
        """Where a number stands on the scale, 0 to 1."""
        if number <= self.low:
            return 0.0
        if number >= self.high:
            return 1.0
        return math.log(number / self.low) / math.log(self.high / self.low)

    def number(self, share: float) -> float:
        return math.exp(math.log(self.low) * (1 - share) + math.log(self.high) * share)

    def colour(self, number: float) -> str:
        place = self.share(number) * (len(RAMP) - 1)
        first = min(int(place), len(RAMP) - 2)
        return _mixed(RAMP[first], RAMP[first + 1], place - first)


def _mixed(start: str, end: str, share: float) -> str:
    pairs = zip(bytes.fromhex(start[1:]), bytes.fromhex(end[1:]))
    return "#" + bytes(round(a + (b - a) * share) for a, b in pairs).hex()
