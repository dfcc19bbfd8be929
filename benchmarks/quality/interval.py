"""Bootstrap intervals (Efron, 1979) of paired ratios; prompts are what is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

DRAWS = 10_000
SEED = 0


class Ratio(NamedTuple):
    """Of two means over the same cases, with its 95 % interval; num_prompts, num_cases: over how
    many."""

    ratio: float
    low: float
    high: float
    num_prompts: int
    num_cases: int


def paired_ratio(pairs: Mapping[str, Sequence[tuple[float, float]]]) -> Ratio:
    """pairs: prompt -> (numerator, denominator) of its cases.

    A prompt is drawn with all its cases: they share a text, so they are not independent.
    """
    assert pairs, "nothing to compare"
    sums = np.array([np.sum(np.asarray(cases), axis=0) for cases in pairs.values()])
    drawn = _draws(len(sums)) @ sums  # a ratio of sums is one of means: the cases are paired
    ratios = drawn[:, 0] / drawn[:, 1]
    low, high = np.percentile(ratios, (2.5, 97.5))
    over, under = sums.sum(0)
    num_cases = sum(map(len, pairs.values()))
    return Ratio(float(over / under), float(low), float(high), len(sums), num_cases)


def mean_interval(values: Mapping[str, Sequence[float]]) -> tuple[float, float]:
    """95 % interval of the mean over all cases."""
    ratio = paired_ratio({prompt: [(v, 1.0) for v in cases] for prompt, cases in values.items()})
    return ratio.low, ratio.high


def _draws(count: int) -> npt.NDArray[np.int64]:
    """How often each of `count` prompts is drawn, [DRAWS, count]."""
    generator = np.random.default_rng(SEED)
    return generator.multinomial(count, np.full(count, 1 / count), size=DRAWS)
