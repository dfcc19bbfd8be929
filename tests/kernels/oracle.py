"""Plain dense attention and rotation in float64 / complex128: no paging, no tricks."""

from __future__ import annotations

import torch

from kvtool_kernels import Rotary


def rotate(values: torch.Tensor, deltas: torch.Tensor, rope: Rotary) -> torch.Tensor:
    """R(deltas) values in float64: one complex multiplication a pair.

    values [num_tokens, num_heads, head_dim], deltas [num_tokens].
    """
    values = values.double().clone()
    part = values[..., rope.start : rope.end]
    if rope.interleaved:
        pairs = torch.complex(part[..., 0::2].clone(), part[..., 1::2].clone())
    else:
        pairs = torch.complex(*(half.clone() for half in part.chunk(2, -1)))
    angles = deltas.double()[:, None, None] * rope.inv_freq
    pairs = pairs * torch.polar(torch.ones_like(angles), angles)
    turned = (pairs.real, pairs.imag)
    joined = torch.stack(turned, -1).flatten(-2) if rope.interleaved else torch.cat(turned, -1)
    values[..., rope.start : rope.end] = joined
    return values


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    positions: torch.Tensor,
    *,
    scale: float,
    window: int | None = None,
    chunk: int | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """One sequence: query [rows, num_heads, dim], key and value [num_tokens, num_kv_heads, dim],
    key j at position j. float64 [rows, num_heads, value_dim]."""
    group = query.shape[1] // key.shape[1]
    key = key.double().repeat_interleave(group, dim=1)
    value = value.double().repeat_interleave(group, dim=1)
    scores = torch.einsum("qhd,khd->hqk", query.double(), key) * scale
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    q, k = positions[:, None].long(), torch.arange(len(key), device=positions.device)[None]
    visible = k <= q
    if window is not None:
        visible &= k > q - window
    if chunk is not None:
        visible &= k // chunk == q // chunk
    weights = scores.masked_fill(~visible, float("-inf")).exp()
    total = weights.sum(-1, keepdim=True)
    if sinks is not None:
        total = total + sinks.double().exp()[:, None, None]
    return torch.einsum("hqk,khd->qhd", weights / total, value)
