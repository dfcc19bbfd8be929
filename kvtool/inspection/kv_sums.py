"""Sums over stored values from which statistics follow, in memory that does not grow with them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


def position_bins(num_positions: int) -> Counts:
    """Edges 0, 1, 2, 3, 4, 6, 8, 12, 16, …: two bins an octave, so that an attention sink at the
    first positions stays visible beside thousands of others. int64 [bins + 1]."""
    edges = [0, 1]
    while edges[-1] < num_positions:
        octave = 1 << (edges[-1].bit_length() - 1)
        edges.append(edges[-1] + max(1, octave // 2))
    return np.array(edges, dtype=np.int64)


class KVSums:
    """One part (K, V, …) of the layers of a group.

    Arrays are [num_layers, heads, dim] by channel, [num_layers, heads] by head and [num_layers,
    bins] by position. NaN and Inf are counted and left out of every sum.
    """

    def __init__(self, num_layers: int, heads: int, dim: int, edges: Counts) -> None:
        self.edges = edges
        self.count: Counts = np.zeros((num_layers, heads, dim), dtype=np.int64)
        self.total: Array = np.zeros((num_layers, heads, dim))
        self.squares: Array = np.zeros((num_layers, heads, dim))
        self.abs_max: Array = np.zeros((num_layers, heads, dim))
        self.zeros: Counts = np.zeros(num_layers, dtype=np.int64)
        self.nan: Counts = np.zeros(num_layers, dtype=np.int64)
        self.inf: Counts = np.zeros(num_layers, dtype=np.int64)
        self.num_tokens = 0
        self.norms: Array = np.zeros((num_layers, heads))
        self.binned_norms: Array = np.zeros((num_layers, len(edges) - 1))
        self.binned_tokens: Counts = np.zeros(len(edges) - 1, dtype=np.int64)
        self.broken = np.zeros((num_layers, len(edges) - 1), dtype=bool)

    def add(self, values: Array, positions: Counts) -> None:
        """values [num_layers, heads, tokens, dim], changed in place; positions [tokens]."""
        bins = np.searchsorted(self.edges, positions, side="right") - 1
        finite = np.isfinite(values)
        if not finite.all():
            self._add_broken(values, finite, bins)
        self.count += finite.sum(axis=2)
        self.total += values.sum(axis=2)
        self.zeros += ((values == 0) & finite).sum(axis=(1, 2, 3))
        np.maximum(self.abs_max, np.abs(values).max(axis=2), out=self.abs_max)
        values *= values
        self.squares += values.sum(axis=2)
        self._add_norms(np.sqrt(values.sum(axis=3)), bins)

    def _add_broken(self, values: Array, finite: npt.NDArray[np.bool_], bins: Counts) -> None:
        self.nan += np.isnan(values).sum(axis=(1, 2, 3))
        self.inf += np.isinf(values).sum(axis=(1, 2, 3))
        layers, tokens = np.nonzero(~finite.all(axis=(1, 3)))
        self.broken[layers, bins[tokens]] = True
        values[~finite] = 0

    def _add_norms(self, norms: Array, bins: Counts) -> None:
        """norms [num_layers, heads, tokens]"""
        self.num_tokens += len(bins)
        self.norms += norms.sum(axis=2)
        np.add.at(self.binned_norms.T, bins, norms.mean(axis=1).T)
        np.add.at(self.binned_tokens, bins, 1)
