"""Copy the first slots of blocks onto other blocks, all layers (copy-on-write)."""

from __future__ import annotations

import torch


def copy_blocks(pool: torch.Tensor, copies: torch.Tensor) -> None:
    """See `kvtool_kernels.copy_blocks`."""
    for source, target, num_slots in copies.tolist():
        assert 0 <= num_slots <= pool.shape[-2], num_slots
        pool[target, ..., :num_slots, :] = pool[source, ..., :num_slots, :]
