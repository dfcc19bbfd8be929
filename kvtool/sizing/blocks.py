"""From a layer's kind to what it keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kvtool.errors import ModelError
from kvtool.sizing import kinds, layers
from kvtool.sizing.fields import Fields
from kvtool.sizing.geometry import attention, full_attention, geometry, latent_attention
from kvtool.sizing.layers import LayerCache
from kvtool.sizing.state import gated_delta_net, short_conv

Recurrence = Callable[[Fields], LayerCache]


def by_kind(
    fields: Fields, layer_kinds: Sequence[str], recurrence: Recurrence | None = None
) -> tuple[tuple[LayerCache, ...], ...]:
    """One entry a layer. recurrence: what this family's linear-attention layers keep."""
    if len(layer_kinds) != fields.num_layers:
        raise ModelError(
            f"The config describes {len(layer_kinds)} layers and says there are {fields.num_layers}."
        )
    return tuple(
        _caches(layer_fields(fields, i), kind, recurrence) for i, kind in enumerate(layer_kinds)
    )


def layer_fields(fields: Fields, layer: int) -> Fields:
    """The fields as layer `layer` sees them (`per_layer_config` overrides some)."""
    overrides = fields.values.get("per_layer_config") or {}
    own = next((o for number, o in overrides.items() if int(number) == layer), None)  # "02" is 2
    if not own:
        return fields
    changed = Fields({**fields.values, **own})
    changed.assumptions = fields.assumptions
    return changed


def _caches(fields: Fields, kind: str, recurrence: Recurrence | None) -> tuple[LayerCache, ...]:
    if kind == kinds.NOTHING:
        return ()
    if kind == "hybrid":
        return (global_attention(fields), recurrent(fields, recurrence))
    return (_cache(fields, kind, recurrence),)


def _cache(fields: Fields, kind: str, recurrence: Recurrence | None) -> LayerCache:
    if kind == kinds.SLIDING:
        window = fields.count("sliding_window", "attention_window_size", "window_size")
        if fields.get("kv_lora_rank"):
            return replace(latent_attention(fields), window=window, index_dim=0, index_topk=None)
        return attention(layers.SLIDING, geometry(fields), window)
    if kind == kinds.CHUNKED:
        return attention(layers.CHUNKED, geometry(fields), fields.count("attention_chunk_size"))
    if kind == kinds.CONV:
        return short_conv(fields)
    if kind == kinds.LINEAR:
        return recurrent(fields, recurrence)
    if kind == kinds.INDEXED and not fields.get("kv_lora_rank"):
        raise ModelError("indexed_attention without kv_lora_rank: kvtool does not know this cache.")
    return global_attention(fields)


def global_attention(fields: Fields) -> LayerCache:
    """Attention over everything: latent where the config has a kv_lora_rank."""
    return latent_attention(fields) if fields.get("kv_lora_rank") else full_attention(fields)


def recurrent(fields: Fields, recurrence: Recurrence | None) -> LayerCache:
    if recurrence is not None:
        return recurrence(fields)
    if fields.get("linear_num_value_heads") is None:
        raise ModelError(
            f"kvtool does not know what the linear-attention layers of {fields.model_type!r} keep."
        )
    return gated_delta_net(fields)
