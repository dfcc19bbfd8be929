"""Where the bytes of a layer lie in a block, as the pool lays them out and files keep them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kvtool.cache.group import DTYPE_BYTES, GroupSpec


class LayerPlace(NamedTuple):
    """A model layer: row `row` of group `group`."""

    layer: int
    group: int
    row: int


def layer_places(groups: Sequence[GroupSpec]) -> list[LayerPlace]:
    """All layers of the model in order."""
    return sorted(
        LayerPlace(layer, index, row)
        for index, group in enumerate(groups)
        for row, layer in enumerate(group.layers)
    )


def layer_shape(group: GroupSpec, block_size: int) -> tuple[int, ...]:
    """One layer of one block, in values."""
    if group.kind == "latent":
        return block_size, group.head_dim
    return 2, group.num_kv_heads, block_size, group.head_dim


def layer_bytes(group: GroupSpec, block_size: int) -> int:
    return group.block_bytes(block_size) // len(group.layers)


def without_unused_slots(
    block: memoryview, group: GroupSpec, block_size: int, num_tokens: int
) -> memoryview:
    """A copy of all layers of a block, with zeros behind its last token: whatever the memory held
    before may belong to others."""
    # [layers, planes and heads, block_size, bytes of a row]
    row_bytes = group.head_dim * DTYPE_BYTES[group.dtype]
    data = np.frombuffer(block, dtype=np.uint8).reshape(
        len(group.layers), -1, block_size, row_bytes
    )
    copy = data.copy()
    copy[:, :, num_tokens:] = 0
    return memoryview(copy.reshape(-1))
