"""What one layer group keeps per token: pure arithmetic, shared by pools, size-calc and reports."""

from __future__ import annotations

from dataclasses import dataclass

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """Layers whose KV has the same shape and lifetime.

    kind "kv": K and V of `num_kv_heads` heads, `head_dim` values each.
    kind "latent" (MLA): one row of `head_dim` = latent + rope values, no V, one head.
    """

    layers: tuple[int, ...]
    kind: str  # "kv" | "latent"
    num_kv_heads: int
    head_dim: int
    dtype: str  # a key of DTYPE_BYTES
    window: int | None = None  # sliding window in tokens; KV is kept at full length all the same
    latent_dim: int | None = None  # kind "latent": the first latent_dim values are the latent

    @property
    def values_per_token(self) -> int:
        planes = 2 if self.kind == "kv" else 1
        return len(self.layers) * planes * self.num_kv_heads * self.head_dim

    @property
    def bytes_per_token(self) -> int:
        return self.values_per_token * DTYPE_BYTES[self.dtype]

    def block_bytes(self, block_size: int) -> int:
        return self.bytes_per_token * block_size
