"""Copy KV of a whole layer group to other slots, with each layer's keys turned by its rotation."""

from __future__ import annotations

import torch

from kvtool.models.hf import PagedModel
from kvtool_kernels import Rotary, rope_shift


def move_keys(
    paged: PagedModel,
    group: int,
    source_slots: torch.Tensor,
    target_slots: torch.Tensor,
    deltas: torch.Tensor,
) -> None:
    """int64 [num_tokens] each, as in `kvtool_kernels.rope_shift`. Layers without a rotation copy."""
    still = Rotary(torch.zeros(1, dtype=torch.float64, device=paged.device))
    for layer in paged.paged_layers:
        if layer.group == group:
            rope_shift(
                layer.kv_cache,
                source_slots,
                target_slots,
                deltas.to(torch.int32),
                layer.rope or still,
            )
