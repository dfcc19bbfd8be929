"""What the cases found, summed up by situation and over all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from kvtool.gate.cases import SITUATIONS

ALL = "all"


class CaseResult(NamedTuple):
    """One prompt with moved text against the same prompt computed in full.

    Means over rows: the last one of the prompt and those of the fed answer. kl: KL(full || moved)
    in nats. top1: share of rows with the same likeliest token. nll_change: of the answer's tokens,
    in nats, positive where moved text makes them less likely.
    """

    situation: str
    prompt_tokens: int
    shifted_tokens: int
    recomputed_tokens: int
    rows: int
    kl: float
    top1: float
    nll_change: float

    @property
    def moved_tokens(self) -> int:
        """Found at another position, repaired or not."""
        return self.shifted_tokens + self.recomputed_tokens


class Score(NamedTuple):
    """Of the `cases` of a situation in which text was moved; means None where there are none.

    recompute_share: of the moved tokens, how many the repair computes again.
    """

    situation: str
    cases: int
    unmoved_cases: int
    prompt_tokens: int
    moved_tokens: int
    recompute_share: float | None
    kl_mean: float | None
    top1_agreement: float | None
    nll_change: float | None


class Limits(NamedTuple):
    kl: float = 0.02
    top1: float = 0.92


def scores(results: Sequence[CaseResult]) -> list[Score]:
    """One for each situation, then one over all."""
    by_situation = [
        _score(name, [result for result in results if result.situation == name])
        for name in SITUATIONS
    ]
    return [*by_situation, _score(ALL, results)]


def failures(pooled: Score, limits: Limits) -> list[str]:
    """Why the gate stays shut; empty: it is passed."""
    kl, top1 = pooled.kl_mean, pooled.top1_agreement
    if kl is None or top1 is None:
        return ["no text of the probe set was moved, so nothing was measured"]
    found = []
    if not kl <= limits.kl:  # NaN is too much
        found.append(f"mean KL {kl:.4f} is above {limits.kl:g}")
    if not top1 >= limits.top1:
        found.append(f"top-1 agreement {top1:.4f} is below {limits.top1:g}")
    return found


def _score(name: str, results: Sequence[CaseResult]) -> Score:
    moved = [result for result in results if result.moved_tokens]
    tokens = sum(result.moved_tokens for result in moved)
    recomputed = sum(result.recomputed_tokens for result in moved)
    return Score(
        situation=name,
        cases=len(moved),
        unmoved_cases=len(results) - len(moved),
        prompt_tokens=sum(result.prompt_tokens for result in moved),
        moved_tokens=tokens,
        recompute_share=recomputed / tokens if tokens else None,
        kl_mean=_mean(moved, [result.kl for result in moved]),
        top1_agreement=_mean(moved, [result.top1 for result in moved]),
        nll_change=_mean(moved, [result.nll_change for result in moved]),
    )


def _mean(results: Sequence[CaseResult], values: Sequence[float]) -> float | None:
    """Over rows."""
    rows = sum(result.rows for result in results)
    weighted = math.fsum(result.rows * value for result, value in zip(results, values))
    return weighted / rows if rows else None
