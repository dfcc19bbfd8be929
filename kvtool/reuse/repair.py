"""Which tokens of a moved run are computed again, so that they see their new context.

    run       [start ........................................ stop)
    leading   [start .. start + K)                    known before the forward pass
    selected                  a share of [start + K, stop), chosen by the forward pass

The rule `sink` holds under every repair: the first block of a run that lands at position 0, or
was computed there, is always computed again, because an attention sink does not move.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from kvtool.errors import ConfigError
from kvtool.reuse.run import Run


@dataclass(frozen=True, slots=True)
class Repair:
    """amount: K of first:K, SHARE of the selecting rules, else 0."""

    rule: str
    amount: float = 0

    def __str__(self) -> str:
        return f"{self.rule}:{self.amount:.9g}" if RULES[self.rule].parameter else self.rule

    @property
    def selects(self) -> bool:
        """The forward pass chooses tokens."""
        return RULES[self.rule].parameter == SHARE

    def num_leading(self, num_tokens: int, at_sink: bool, block_size: int) -> int:
        leading = RULES[self.rule].leading(num_tokens, int(self.amount), block_size)
        return min(num_tokens, max(leading, block_size if at_sink else 0))

    def num_selected(self, num_tokens: int) -> int:
        """Of so many tokens behind the leading ones."""
        return math.ceil(self.amount * num_tokens) if self.selects else 0

    def cost(self, num_tokens: int, at_sink: bool, block_size: int) -> int:
        """Tokens of a run of this length that are computed again."""
        leading = self.num_leading(num_tokens, at_sink, block_size)
        return leading + self.num_selected(num_tokens - leading)

    def recomputed(self, run: Run, block_size: int) -> list[tuple[int, int]]:
        """Half-open prompt ranges inside the run that are computed again in any case."""
        leading = self.num_leading(run.num_tokens, run.at_sink, block_size)
        return [(run.start, run.start + leading)] if leading else []


def parse_repair(text: str) -> Repair:
    """Raises `ConfigError`."""
    name, colon, amount = text.partition(":")
    rule = RULES.get(name)
    if rule is None or bool(colon) != bool(rule.parameter):
        raise ConfigError(f"Unknown repair {text!r}; allowed: {_ALLOWED}.", hint=_HINT)
    if rule.parameter == LENGTH and not re.fullmatch(r"0*[1-9][0-9]{0,8}", amount):
        raise ConfigError(f"K is {amount!r} in repair {text!r}; allowed: 1 or more.", hint=_HINT)
    if rule.parameter == SHARE and not (_is_number(amount) and 0 < float(amount) <= 1):
        allowed = "a fraction above 0 and up to 1"
        raise ConfigError(
            f"SHARE is {amount!r} in repair {text!r}; allowed: {allowed}.", hint=_HINT
        )
    return Repair(name, float(amount) if amount else 0)


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[0-9]+\.?[0-9]*|\.[0-9]+", text) is not None


def _nothing(num_tokens: int, amount: int, block_size: int) -> int:
    return 0


def _first(num_tokens: int, amount: int, block_size: int) -> int:
    return amount


def _auto(num_tokens: int, amount: int, block_size: int) -> int:
    """A quarter of the run, at least 32 tokens, in whole blocks."""
    return -(-max(32, -(-num_tokens // 4)) // block_size) * block_size


LENGTH = "K"
SHARE = "SHARE"


class Rule(NamedTuple):
    """leading: (tokens of the run, amount, block size) -> how many are computed again in front."""

    leading: Callable[[int, int, int], int]
    parameter: str | None


RULES = {
    "auto": Rule(_auto, None),
    "none": Rule(_nothing, None),
    "first": Rule(_first, LENGTH),
    "attn": Rule(_nothing, SHARE),
    "vdev": Rule(_nothing, SHARE),
    "kdev": Rule(_nothing, SHARE),
}
_ALLOWED = ", ".join(f"{n}:{r.parameter}" if r.parameter else n for n, r in RULES.items())
_HINT = "Use --repair auto, or for example first:32 or attn:0.15."
