"""How long a forward takes, where there is no model to measure."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from kvtool.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """prefill_rate: prompt tokens a second in front of an empty context. attention: seconds that
    each token in front of one more prompt token adds. decode_rate: tokens a second of one reply;
    replies that are decoded together share their steps."""

    prefill_rate: float = 10_000.0
    decode_rate: float = 50.0
    attention: float = 0.0

    def __post_init__(self) -> None:
        for option, rate in (("prefill", self.prefill_rate), ("decode", self.decode_rate)):
            if not (isfinite(rate) and rate > 0):
                raise ConfigError(f"--{option}-rate is {rate:g}; it must be above 0, in tokens/s.")
        assert isfinite(self.attention) and self.attention >= 0

    def prefill_s(self, start: int, stop: int) -> float:
        """Computing the tokens [start, stop) of a prompt."""
        return (stop - start) * (1 / self.prefill_rate + self.attention * (start + stop) / 2)

    def decode_s(self, steps: int) -> float:
        return steps / self.decode_rate
