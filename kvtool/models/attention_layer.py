"""What one attention layer keeps and sees, and which layers share a pool."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kvtool.cache.group import DTYPE_BYTES, GroupSpec


class Unsupported(Exception):
    """A model does something that paged KV cannot carry; the text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionLayer:
    """One layer as seen by a probing forward.

    kind "kv": K and V of `num_kv_heads` heads. kind "latent" (MLA): one row of latent + rope.
    """

    kind: str
    num_kv_heads: int
    head_dim: int
    dtype: torch.dtype
    latent_dim: int | None = None
    window: int | None = None
    chunk: int | None = None

    @property
    def is_latent(self) -> bool:
        return self.kind == "latent"

    @property
    def group_key(self) -> tuple[object, ...]:
        reach = self.window or self.chunk
        return self.kind, self.num_kv_heads, self.head_dim, self.latent_dim, self.dtype, reach


def group_layers(layers: tuple[AttentionLayer, ...]) -> tuple[GroupSpec, ...]:
    """Layers of equal shape, dtype and reach form one group; groups are in order of first layer."""
    members: dict[tuple[object, ...], list[int]] = {}
    for index, layer in enumerate(layers):
        members.setdefault(layer.group_key, []).append(index)
    return tuple(_group(layers, indices) for indices in members.values())


def _group(layers: tuple[AttentionLayer, ...], indices: list[int]) -> GroupSpec:
    layer = layers[indices[0]]
    dtype = str(layer.dtype).removeprefix("torch.")
    if dtype not in DTYPE_BYTES:
        raise Unsupported(f"it keeps its KV as {dtype}; allowed: {', '.join(DTYPE_BYTES)}")
    return GroupSpec(
        layers=tuple(indices),
        kind=layer.kind,
        num_kv_heads=layer.num_kv_heads,
        head_dim=layer.head_dim,
        dtype=dtype,
        window=layer.window or layer.chunk,
        latent_dim=layer.latent_dim,
    )
