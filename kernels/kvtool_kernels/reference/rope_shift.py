"""Copy KV to other slots, with K turned by delta: export, and the oracle for attention."""

from __future__ import annotations

import torch

from kvtool_kernels.rotary import Rotary, rotate, unit_rotation


def rope_shift(
    kv_cache: torch.Tensor,
    source_slots: torch.Tensor,
    target_slots: torch.Tensor,
    deltas: torch.Tensor,
    rope: Rotary,
) -> None:
    """See `kvtool_kernels.rope_shift`."""
    block_size = kv_cache.shape[-2]
    source = source_slots // block_size, source_slots % block_size
    target = target_slots // block_size, target_slots % block_size
    cos, sin = unit_rotation(deltas, rope.inv_freq)  # [N, rotary_dim / 2]
    if kv_cache.dim() == 3:
        row = kv_cache[source]  # [N, latent + rope]
        kv_cache[target] = rotate(row, cos, sin, rope).to(kv_cache.dtype)
        return
    key = kv_cache[source[0], 0, :, source[1]]  # [N, num_kv_heads, head_dim]
    turned = rotate(key, cos[:, None], sin[:, None], rope)
    kv_cache[target[0], 0, :, target[1]] = turned.to(kv_cache.dtype)
    kv_cache[target[0], 1, :, target[1]] = kv_cache[source[0], 1, :, source[1]]
