"""Gather the KV of a range of positions through a block table."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch


class Run(NamedTuple):
    """Positions [start, end) whose keys have to move by the same delta."""

    start: int
    end: int
    delta: int


class Gathered(NamedTuple):
    """KV of positions [start, end): key, value [num_kv_heads, end - start, dim] in the cache's
    dtype; column c is position start + c, and runs tile [start, end)."""

    start: int
    key: torch.Tensor
    value: torch.Tensor
    runs: list[Run]


def gather(
    kv_cache: torch.Tensor, table: Any, start: int, end: int, latent_dim: int | None
) -> Gathered:
    """Read positions [start, end) from whole blocks, then drop what is not asked for.

    table: numpy int32 [num_entries, 5], the sequence's entries, tiling [0, n) with n >= end.
    Slots outside [start, end) may hold anything; they are dropped, not masked.
    """
    starts = table[:, 2]
    assert len(table) and end <= int(starts[-1] + table[-1, 3]), "a query row beyond the entries"
    table = table[starts.searchsorted(start, "right") - 1 : starts.searchsorted(end, "left")]
    block_ids = torch.from_numpy(table[:, 0].copy()).to(kv_cache.device)
    lanes = _lanes(table, start, end, kv_cache.shape[-2])
    if latent_dim is not None:
        key = kv_cache.index_select(0, block_ids).flatten(0, 1)[lanes][None]
        value = key[..., :latent_dim]
    else:  # [2, num_kv_heads, num_blocks, block_size, head_dim]: tokens together, head by head
        blocks = kv_cache.permute(1, 2, 0, 3, 4).index_select(2, block_ids)
        key, value = blocks.flatten(2, 3)[:, :, lanes]
    return Gathered(start, key, value, _runs(table, start, end))


def _lanes(table: Any, start: int, end: int, block_size: int) -> slice | torch.Tensor:
    """Where positions [start, end) lie among the slots of the table's blocks in order."""
    first = int(table[0, 1]) + start - int(table[0, 2])
    if not table[1:, 1].any() and (table[:-1, 1] + table[:-1, 3] == block_size).all():
        return slice(first, first + end - start)
    entries = torch.from_numpy(table.copy()).to(torch.int64)
    base = torch.arange(len(entries)) * block_size + entries[:, 1] - entries[:, 2]
    positions = torch.arange(int(table[0, 2]), int(table[-1, 2] + table[-1, 3]))
    lanes = base.repeat_interleave(entries[:, 3]) + positions
    return lanes[start - int(table[0, 2]) :][: end - start]


def _runs(table: Any, start: int, end: int) -> list[Run]:
    deltas = table[:, 4]
    if not deltas.any():
        return [Run(start, end, 0)]
    changes = (deltas[1:] != deltas[:-1]).nonzero()[0] + 1
    firsts = [0, *changes.tolist()]
    bounds = [start, *table[changes, 2].tolist(), end]
    return [Run(bounds[i], bounds[i + 1], int(deltas[row])) for i, row in enumerate(firsts)]
