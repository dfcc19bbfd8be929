"""How fast tiers deliver KV and how fast the model computes it, as measured so far."""

from __future__ import annotations

import threading
from collections.abc import Mapping

_KEPT = 0.8  # of what older measurements weigh, at each new one
_DRIFT = 1.1  # by which a tier is taken to be faster, each time its figure spoke against using it
_RECALLED_S = 2**-7  # what a figure of an earlier process weighs, in seconds of measurement
_LARGEST = 1e18  # nothing real comes near
COMPUTE = "compute"


class Rates:
    """Means over recent measurements: bytes/s of each tier, tokens/s of the model.

    Any thread may measure. What was never measured is None.
    """

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, float]] = {}  # amount, seconds
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
        """This tier was left aside for its figure. That rises a little each time, over processes
        too, until the tier is tried again: one slow moment does not decide for ever."""
        with self._lock:
            if tier in self._sums:
                amount, seconds = self._sums[tier]
                self._sums[tier] = _DRIFT * amount, seconds

    def as_dict(self) -> dict[str, float]:
        """Name (a tier, or "compute") -> rate: what another process can begin with."""
        rates = {name: self._rate(name) for name in sorted(self._sums)}
        return {name: rate for name, rate in rates.items() if rate is not None}

    @classmethod
    def from_dict(cls, rates: Mapping[str, object]) -> Rates:
        """Figures of an earlier process count as one short measurement; what is none is left out."""
        new = cls()
        for name, rate in rates.items():
            if isinstance(rate, (int, float)) and 0 < rate <= _LARGEST:
                new._add(name, rate * _RECALLED_S, _RECALLED_S)
        return new

    def _add(self, name: str, amount: float, seconds: float) -> None:
        if amount <= 0 or seconds <= 0:
            return
        with self._lock:
            old_amount, old_seconds = self._sums.get(name, (0.0, 0.0))
            self._sums[name] = _KEPT * old_amount + amount, _KEPT * old_seconds + seconds

    def _rate(self, name: str) -> float | None:
        amount, seconds = self._sums.get(name, (0.0, 0.0))
        return amount / seconds if seconds else None
