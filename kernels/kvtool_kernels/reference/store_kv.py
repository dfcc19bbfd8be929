"""Write new K and V rows into their slots."""

from __future__ import annotations

import torch


def store_kv(
    key: torch.Tensor, value: torch.Tensor | None, kv_cache: torch.Tensor, slots: torch.Tensor
) -> None:
    """See `kvtool_kernels.store_kv`."""
    latent = kv_cache.dim() == 3
    assert (value is None) == latent, "a latent cache has no V"
    assert len(key) == len(slots), (key.shape, slots.shape)
    if bool((slots < 0).any()):
        kept = (slots >= 0).nonzero()[:, 0]
        slots, key = slots[kept], key[kept]
        value = None if value is None else value[kept]
    block_size = kv_cache.shape[-2]
    blocks, offsets = slots // block_size, slots % block_size
    if value is None:
        kv_cache[blocks, offsets] = key
    else:
        kv_cache[blocks, 0, :, offsets] = key
        kv_cache[blocks, 1, :, offsets] = value
