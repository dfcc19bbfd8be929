"""The bytes of stored KV as arrays of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kvtool.cache.group import DTYPE_BYTES, GroupSpec

Bits = npt.NDArray[Any]  # unsigned integers as wide as a value: numpy has no bfloat16


def stored_bits(group: GroupSpec, block_size: int, kv: npt.NDArray[np.uint8]) -> dict[str, Bits]:
    """Views of `RunContents.kv` of one group, [num_blocks, num_layers, heads, block_size, dim] each:
    "key" and "value", of a latent group "latent" and "rope" (one head)."""
    bits = kv.view(f"<u{DTYPE_BYTES[group.dtype]}")
    outer = kv.shape[:2]
    if group.kind == "latent":
        rows = bits.reshape(*outer, 1, block_size, group.head_dim)
        return {"latent": rows[..., : group.latent_dim], "rope": rows[..., group.latent_dim :]}
    planes = bits.reshape(*outer, 2, group.num_kv_heads, block_size, group.head_dim)
    return {"key": planes[:, :, 0], "value": planes[:, :, 1]}


def decoded(dtype: str, bits: Bits) -> npt.NDArray[np.float64]:
    """The values, exactly. dtype: a key of DTYPE_BYTES."""
    if dtype == "bfloat16":  # the upper half of a float32
        return (bits.astype("<u4") << 16).view("<f4").astype(np.float64)
    return bits.view("<f2" if dtype == "float16" else "<f4").astype(np.float64)
