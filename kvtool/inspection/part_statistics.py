"""Statistics of the K or the V of one layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvtool.inspection.kv_sums import Array, KVSums

OUTLIER_RATIO = 5.0
MAX_OUTLIERS = 8


@dataclass(frozen=True, slots=True)
class OutlierChannel:
    """ratio: root mean square of the channel over that of the median channel of its layer."""

    head: int
    channel: int
    ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PartStatistics:
    """part: key | value, of MLA latent | rope. Of the finite values: count (all others are nan or
    inf), mean, std, abs_max, zeros (a share).

    head_norms: mean L2 norm of a token's vector, by head. first_norm: that of position 0, mean
    over heads, relative to all positions (an attention sink is far from 1); None: not stored.
    outliers: the channels with a ratio of 5 or more, largest first, at most 8; num_outliers: all.
    A few K channels that are large for every token are what makes K hard to quantise (KIVI, 2024).
    """

    layer: int
    part: str
    count: int
    nan: int
    inf: int
    mean: float
    std: float
    abs_max: float
    zeros: float
    head_norms: tuple[float, ...]
    first_norm: float | None
    num_outliers: int
    outliers: tuple[OutlierChannel, ...]


def part_statistics(layer: int, part: str, sums: KVSums, row: int) -> PartStatistics:
    """row: the layer's place in `sums`."""
    count = int(sums.count[row].sum())
    mean = float(sums.total[row].sum()) / max(count, 1)
    mean_square = float(sums.squares[row].sum()) / max(count, 1)
    outliers = outlier_channels(np.sqrt(sums.squares[row] / np.maximum(sums.count[row], 1)))
    return PartStatistics(
        layer=layer,
        part=part,
        count=count,
        nan=int(sums.nan[row]),
        inf=int(sums.inf[row]),
        mean=mean,
        std=max(mean_square - mean * mean, 0.0) ** 0.5,
        abs_max=float(sums.abs_max[row].max()),
        zeros=int(sums.zeros[row]) / max(count, 1),
        head_norms=tuple(float(norm) / sums.num_tokens for norm in sums.norms[row]),
        first_norm=_first_norm(sums, row),
        num_outliers=len(outliers),
        outliers=tuple(outliers[:MAX_OUTLIERS]),
    )


def outlier_channels(rms: Array) -> list[OutlierChannel]:
    """rms [heads, dim]: root mean square by channel."""
    median = float(np.median(rms))
    if median == 0:
        return []
    ratios = rms / median
    found = [
        OutlierChannel(int(head), int(channel), float(ratios[head, channel]))
        for head, channel in np.argwhere(ratios >= OUTLIER_RATIO)
    ]
    return sorted(found, key=lambda outlier: -outlier.ratio)


def _first_norm(sums: KVSums, row: int) -> float | None:
    mean = float(sums.norms[row].mean()) / sums.num_tokens
    if sums.binned_tokens[0] == 0 or mean == 0:
        return None
    return float(sums.binned_norms[row, 0]) / int(sums.binned_tokens[0]) / mean
