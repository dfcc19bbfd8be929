"""The same model with other attention: MHA, GQA (Ainslie et al. 2023), MQA (Shazeer 2019), MLA."""

from __future__ import annotations

from dataclasses import replace

from kvtool.sizing.formats import KVFormat, kv_format
from kvtool.sizing.layers import CROSS, FULL, LATENT, SLIDING, STATE, KVCacheSpec, LayerCache
from kvtool.sizing.sequence_bytes import Load, formula_bytes

VARIANTS = ("mha", "gqa", "mqa", "mla")
GQA_HEADS, LATENT_DIM, ROPE_DIM = 8, 512, 64  # Llama 3's KV heads; DeepSeek-V3's latent
LATENT_HEAD_DIM = 128  # per-head K and V of an MLA model's MHA twin


def sizes(specs: tuple[KVCacheSpec, ...], fmt: KVFormat, load: Load) -> dict[str, int]:
    """Formula bytes of each variant; a format for latents only is replaced by bf16."""
    plain = fmt if fmt.rope_bits is None else kv_format("bfloat16")
    return {
        name: sum(formula_bytes(variant(s, name), plain, load) for s in specs) for name in VARIANTS
    }


def variant(spec: KVCacheSpec, name: str) -> KVCacheSpec:
    return replace(spec, cache=_changed(spec.cache, name))


def _changed(cache: LayerCache, name: str) -> LayerCache:
    if cache.kind in (STATE, CROSS) or _is(cache, name):
        return cache
    plain = _per_head(cache) if cache.kind == LATENT else cache
    if name == "mla":
        return replace(
            cache,
            kind=LATENT,
            num_kv_heads=1,
            k_dim=LATENT_DIM + ROPE_DIM,
            v_dim=0,
            latent_dim=LATENT_DIM,
        )
    heads = {"mha": cache.num_heads, "mqa": 1, "gqa": _gqa_heads(cache.num_heads)}
    return replace(plain, num_kv_heads=heads[name])


def _is(cache: LayerCache, name: str) -> bool:
    if cache.kind == LATENT or name == "mla":
        return cache.kind == LATENT and name == "mla"
    grouped = 1 < cache.num_kv_heads < cache.num_heads
    return grouped and name == "gqa"


def _per_head(cache: LayerCache) -> LayerCache:
    return replace(
        cache,
        kind=FULL if cache.window is None else SLIDING,
        k_dim=LATENT_HEAD_DIM,
        v_dim=LATENT_HEAD_DIM,
        latent_dim=0,
        index_dim=0,
        index_topk=None,
    )


def _gqa_heads(num_heads: int) -> int:
    """The most KV heads up to 8 that divide the query heads."""
    return max(h for h in range(1, GQA_HEADS + 1) if num_heads % h == 0)
