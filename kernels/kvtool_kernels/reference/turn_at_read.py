"""Queries and cached keys that are not rotated yet are turned for their positions as they are read."""

from __future__ import annotations

import torch

from kvtool_kernels.reference.gather import Gathered, Run
from kvtool_kernels.rotary import RotaryTable, rotate


def turn_rows(
    query: torch.Tensor, positions: torch.Tensor, at_read: RotaryTable | None
) -> torch.Tensor:
    """R(position) q: fp32 [rows, num_heads, head_dim]; as it is without a table."""
    if at_read is None:
        return query
    cos, sin = at_read.cos[positions, None], at_read.sin[positions, None]
    return rotate(query, cos, sin, at_read.rope)


def turn_keys(kv: Gathered, at_read: RotaryTable | None) -> Gathered:
    """R(position) k, fp32, wherever the keys came from; V stays, and so does a latent."""
    if at_read is None:
        return kv
    start, end = kv.start, kv.start + kv.key.shape[1]
    assert end <= len(at_read.cos), "a position beyond the table"
    key = rotate(kv.key, at_read.cos[start:end], at_read.sin[start:end], at_read.rope)
    return kv._replace(key=key, runs=[Run(start, end, 0)])
