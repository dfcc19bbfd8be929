"""Attention of one sequence's rows, and the weight that each key got from them.

The weights are summed while they exist, a block of rows at a time (paged_attention.py): no key
is read twice and memory stays bounded, whatever the number of rows.
"""

from __future__ import annotations

import torch

from kvtool_kernels.reference.gather import gather
from kvtool_kernels.reference.paged_attention import Scoring, Visibility, attend, rows_at_a_time
from kvtool_kernels.reference.turn_at_read import turn_keys, turn_rows
from kvtool_kernels.rotary import Rotary, RotaryTable


def attention_mass(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    out: torch.Tensor,
    mass: torch.Tensor,
    first: int,
    positions: torch.Tensor,
    entries: torch.Tensor,
    *,
    scale: float,
    window: int | None = None,
    chunk: int | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    latent_dim: int | None = None,
    rope: Rotary | None = None,
    at_read: RotaryTable | None = None,
) -> None:
    """See `kvtool_kernels.attention_mass`."""
    assert mass.dtype == torch.float64, mass.dtype  # sums of many rows, in any blocks
    visibility, scoring = Visibility(window, chunk), Scoring(scale, softcap, sinks)
    start, end = visibility.keys_of(positions)
    kv = turn_keys(gather(kv_cache, entries.cpu().numpy(), start, end, latent_dim), at_read)
    step = rows_at_a_time(query.shape[1] * (end - start))
    for row in range(0, len(query), step):
        block = slice(row, row + step)
        queries = positions[block]
        rows = turn_rows(query[block], queries, at_read)
        out[block], weights = attend(rows, queries, kv, visibility, scoring, rope)
        lowest, highest = visibility.keys_of(queries)
        seen = slice(max(lowest, first), min(highest, first + len(mass)))
        if seen.start < seen.stop:
            columns = weights[..., seen.start - lowest : seen.stop - lowest]
            mass[seen.start - first : seen.stop - first] += columns.sum(dim=(0, 1, 2)).double()
