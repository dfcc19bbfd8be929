"""KV of a whole layer group to other slots, with each layer's keys turned by its rotation."""

from __future__ import annotations

import torch

from kvtool.models.hf import PagedModel
from kvtool_kernels import Rotary, rope_shift, rotate, unit_rotation


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


def merge_keys(paged: PagedModel, group: int, merges: torch.Tensor) -> None:
    """Running means: KV in the target slots becomes m + (x - m) / number, x from the source slots.

    merges: int64 [n, 4] rows (source slot, target slot, delta, number), no slot in both; those of
    one target come in ascending number, and number 1 copies. In fp32, rounded to the pool's dtype
    once a number.
    """
    numbers = merges[:, 3]
    for number in sorted(set(numbers.tolist())):
        sources, targets, deltas, _ = merges[numbers == number].unbind(1)
        if number == 1:
            move_keys(paged, group, sources, targets, deltas)
            continue
        for layer in paged.paged_layers:
            if layer.group == group:
                _merge(layer.kv_cache, sources, targets, deltas, number, layer.rope)


def _merge(
    kv_cache: torch.Tensor,
    sources: torch.Tensor,
    targets: torch.Tensor,
    deltas: torch.Tensor,
    number: int,
    rope: Rotary | None,
) -> None:
    """kv_cache: of one layer, as in `kvtool_kernels`."""
    slots = kv_cache.movedim(-2, 1)  # [num_blocks, block_size, ...]
    size = slots.shape[1]
    added = slots[sources // size, sources % size].float()  # [n, 2, heads, dim] or [n, dim]
    if rope is not None:
        keys = added if kv_cache.dim() == 3 else added[:, 0].transpose(0, 1)  # [(heads,) n, dim]
        keys.copy_(rotate(keys, *unit_rotation(deltas, rope.inv_freq), rope))
    where = targets // size, targets % size
    mean = slots[where].float()
    slots[where] = mean.lerp_(added, 1 / number).to(kv_cache.dtype)
