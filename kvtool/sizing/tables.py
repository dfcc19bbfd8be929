"""The rows of the report: layer groups, and single layers."""

from __future__ import annotations

from kvtool.sizing.formats import KVFormat
from kvtool.sizing.layers import LATENT, STATE, KVCacheSpec, LayerCache
from kvtool.sizing.model_spec import ModelSpec
from kvtool.sizing.report import GroupSize, LayerSize
from kvtool.sizing.sequence_bytes import (
    Load,
    allocated_bytes,
    formula_bytes,
    growth_bytes,
    state_bytes,
)

NO_CACHE = LayerCache(kind="none")  # a layer that reads another layer's KV, or keeps nothing


def group_table(specs: tuple[KVCacheSpec, ...], fmt: KVFormat, load: Load) -> tuple[GroupSize, ...]:
    return tuple(
        GroupSize(
            kind=spec.cache.kind,
            layers=len(spec.layers),
            shape=shape(spec.cache),
            window=spec.cache.window,
            draft=spec.cache.draft,
            bytes=formula_bytes(spec, fmt, load) + state_bytes(spec, load.batch),
            allocated_bytes=allocated_bytes(spec, fmt, load),
            bytes_per_token=growth_bytes(spec, fmt, load.tokens),
        )
        for spec in specs
    )


def layer_table(model: ModelSpec, fmt: KVFormat, load: Load) -> tuple[LayerSize, ...]:
    return tuple(
        _layer_size(number, cache, fmt, load)
        for number, caches in enumerate(model.layers)
        for cache in caches or (NO_CACHE,)
    )


def _layer_size(number: int, cache: LayerCache, fmt: KVFormat, load: Load) -> LayerSize:
    spec = KVCacheSpec(cache=cache, layers=(number,))
    return LayerSize(
        layer=number,
        kind=cache.kind,
        num_kv_heads=cache.num_kv_heads,
        k_dim=cache.k_dim,
        v_dim=cache.v_dim,
        window=cache.window,
        draft=cache.draft,
        bytes=formula_bytes(spec, fmt, load) + state_bytes(spec, load.batch),
        bytes_per_token=growth_bytes(spec, fmt, load.tokens),
    )


def shape(cache: LayerCache) -> str:
    if cache.kind == STATE:
        return f"{cache.conv_values:,} conv + {cache.recurrent_values:,} recurrent"
    if cache.kind == LATENT:
        return f"{cache.latent_dim} latent + {cache.k_dim - cache.latent_dim} rope"
    dims = f"{cache.k_dim}" if cache.k_dim == cache.v_dim else f"{cache.k_dim}/{cache.v_dim}"
    return f"{cache.num_kv_heads} KV heads x {dims}"
