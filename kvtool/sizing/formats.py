"""KV number formats: bits a value, scales, and the newest tokens some keep in 16 bit.

Sources: vLLM (per-tensor fp8; fp32 scales per token and head for int8 and fp8_per_token_head;
nvfp4 with one fp8 scale in 16 values; fp8_ds_mla with 656 bytes a token), KIVI (Liu et al. 2024)
as in transformers' QuantizedCache (group 64 with fp16 scale and zero point, residual length 128),
ggml (q8_0: 34 bytes for 32 values, q4_0: 18).
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from kvtool.errors import ConfigError
from kvtool.sizing.layers import LATENT, LayerCache

INDEX_SCALE_BYTES = 4  # DeepSeek sparse attention: fp8 indexer key with one fp32 scale


@dataclass(frozen=True, slots=True, kw_only=True)
class KVFormat:
    """One row is the key, the value or the latent of one head of one token."""

    name: str
    bits: int
    row_scale_bytes: int = 0
    group: int | None = None  # values that share `group_scale_bytes`
    group_scale_bytes: int = 0
    residual_tokens: int = 0  # newest tokens of a sequence kept in 16 bit
    rope_bits: int | None = None  # latent rows only: the rope part is stored wider
    source: str = ""

    def payload(self, cache: LayerCache) -> int:
        """Bytes of the values of one token in one layer, without scales."""
        if self.rope_bits is not None:
            rope = cache.k_dim - cache.latent_dim
            return _bytes(cache.latent_dim, self.bits) + _bytes(rope, self.rope_bits)
        rows = _bytes(cache.k_dim, self.bits) + _bytes(cache.v_dim, self.bits)
        return cache.num_kv_heads * rows

    def scales(self, cache: LayerCache) -> int:
        """Bytes of the scales of one token in one layer."""
        if self.rope_bits is not None:
            return self._row_scales(cache.latent_dim)
        return cache.num_kv_heads * (self._row_scales(cache.k_dim) + self._row_scales(cache.v_dim))

    def stored(self, cache: LayerCache) -> int:
        return self.payload(cache) + self.scales(cache)

    def _row_scales(self, dim: int) -> int:
        if dim == 0:
            return 0
        groups = -(-dim // self.group) if self.group else 0
        return self.row_scale_bytes + groups * self.group_scale_bytes


def _bytes(values: int, bits: int) -> int:
    return -(-values * bits // 8)


FORMATS = {
    f.name: f
    for f in (
        KVFormat(name="float32", bits=32),
        KVFormat(name="bfloat16", bits=16),
        KVFormat(name="float16", bits=16),
        KVFormat(name="fp8", bits=8, source="vLLM, one scale per tensor"),
        KVFormat(name="fp8_per_token_head", bits=8, row_scale_bytes=4, source="vLLM"),
        KVFormat(name="int8", bits=8, row_scale_bytes=4, source="vLLM int8_per_token_head"),
        KVFormat(
            name="int4",
            bits=4,
            group=64,
            group_scale_bytes=4,
            residual_tokens=128,
            source="KIVI, transformers QuantizedCache",
        ),
        KVFormat(
            name="int2",
            bits=2,
            group=64,
            group_scale_bytes=4,
            residual_tokens=128,
            source="KIVI, transformers QuantizedCache",
        ),
        KVFormat(name="nvfp4", bits=4, group=16, group_scale_bytes=1, source="vLLM"),
        KVFormat(name="q8_0", bits=8, group=32, group_scale_bytes=2, source="ggml"),
        KVFormat(name="q4_0", bits=4, group=32, group_scale_bytes=2, source="ggml"),
        KVFormat(
            name="fp8_ds_mla",
            bits=8,
            group=128,
            group_scale_bytes=4,
            rope_bits=16,
            source="vLLM MLAAttentionSpec",
        ),
    )
}
ALIASES = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
    "fp32": "float32",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "int8_per_token_head": "int8",
}


def kv_format(name: str) -> KVFormat:
    found = FORMATS.get(ALIASES.get(name.lower(), name.lower()))
    if found is None:
        near = difflib.get_close_matches(name, [*FORMATS, *ALIASES], n=1)
        raise ConfigError(
            f"Unknown KV dtype {name!r}; allowed: {', '.join(FORMATS)} "
            f"(other names: {', '.join(ALIASES)}).",
            hint=f"Did you mean {near[0]!r}?" if near else "The default is bfloat16.",
        )
    return found


def check_fits(fmt: KVFormat, caches: list[LayerCache]) -> None:
    if fmt.rope_bits is not None and any(c.kind != LATENT for c in caches if c.num_kv_heads):
        raise ConfigError(
            f"{fmt.name} stores MLA latents; this model has per-head keys and values."
        )
