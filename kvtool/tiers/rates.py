"""How fast tiers deliver KV and how fast the model computes it, as measured so far."""

from __future__ import annotations

import threading
from collections.abc import Mapping

_KEPT = 0.8  # of what older measurements weigh, at each new one
_KEPT_UNUSED = 0.9  # the same, each time a tier's figure spoke against using it
_LEAST_WEIGHT = 0.05  # below this the figure is forgotten, and the tier is tried again
COMPUTE = "compute"


class Rates:
    """Means over recent measurements: bytes/s of each tier, tokens/s of the model.

    Any thread may measure. What was never measured is None.
    """

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, float, float]] = {}  # amount, seconds, weight
        self._lock = threading.Lock()

    def loaded(self, tier: str, num_bytes: int, seconds: float) -> None:
        self._add(tier, num_bytes, seconds)

    def computed(self, num_tokens: int, seconds: float) -> None:
        self._add(COMPUTE, num_tokens, seconds)

    def load_rate(self, tier: str) -> float | None:
        """Bytes/s."""
        return self._rate(tier)

    @property
    def compute_rate(self) -> float | None:
        """Tokens/s."""
        return self._rate(COMPUTE)

    def doubt(self, tier: str) -> None:
        """This tier was left aside for its figure: trust that less, and in the end try again."""
        with self._lock:
            if tier in self._sums:
                amount, seconds, weight = self._sums[tier]
                weight *= _KEPT_UNUSED
                if weight < _LEAST_WEIGHT:
                    del self._sums[tier]
                else:
                    self._sums[tier] = amount, seconds, weight

    def as_dict(self) -> dict[str, float]:
        """Name (a tier, or "compute") -> rate: what another process can begin with."""
        rates = {name: self._rate(name) for name in sorted(self._sums)}
        return {name: rate for name, rate in rates.items() if rate is not None}

    @classmethod
    def from_dict(cls, rates: Mapping[str, object]) -> Rates:
        """Figures of an earlier process count as one measurement; what is no figure is left out."""
        new = cls()
        for name, rate in rates.items():
            if isinstance(rate, (int, float)) and 0 < rate < float("inf"):
                new._add(name, float(rate), 1.0)
        return new

    def _add(self, name: str, amount: float, seconds: float) -> None:
        if amount <= 0 or seconds <= 0:
            return
        with self._lock:
            old_amount, old_seconds, _ = self._sums.get(name, (0.0, 0.0, 0.0))
            self._sums[name] = _KEPT * old_amount + amount, _KEPT * old_seconds + seconds, 1.0

    def _rate(self, name: str) -> float | None:
        amount, seconds, _ = self._sums.get(name, (0.0, 0.0, 0.0))
        return amount / seconds if seconds else None
