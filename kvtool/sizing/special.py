"""Families whose layers share, double or cross their caches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvtool.errors import ModelError
from kvtool.sizing import kinds
from kvtool.sizing.blocks import by_kind
from kvtool.sizing.fields import Fields
from kvtool.sizing.geometry import Geometry, attention, full_attention, latent_attention
from kvtool.sizing.layers import CROSS, FULL, LayerCache
from kvtool.sizing.state import mamba2

Built = tuple[tuple[LayerCache, ...], ...]


def shared_tail(fields: Fields, built: Built) -> Built:
    """Gemma 3n and 4: the last `num_kv_shared_layers` read the KV of earlier layers."""
    owning = len(built) - fields.at_least_zero("num_kv_shared_layers")
    return tuple(caches if i < owning else () for i, caches in enumerate(built))


def gemma3n(fields: Fields) -> Built:
    layer_kinds = kinds.listed(fields) or kinds.interleaved(5)(fields)
    return shared_tail(fields, by_kind(fields, layer_kinds))


def gemma4(fields: Fields) -> Built:
    """Global layers have their own head size and, with attention_k_eq_v, their own KV heads.

    attention_k_eq_v shares the projection only: K is rotated and normalised, V normalised, and
    both are cached.
    """
    layer_kinds = kinds.listed(fields) or kinds.interleaved(6)(fields)
    layer_kinds = [*layer_kinds[:-1], kinds.FULL]
    if fields.get("per_layer_config") is None:
        own: dict[str, Any] = {"head_dim": fields.count("global_head_dim", default=512)}
        kv_heads = fields.get("num_global_key_value_heads")
        if kv_heads is not None and fields.get("attention_k_eq_v"):
            own["num_key_value_heads"] = kv_heads
        full = {str(i): own for i, kind in enumerate(layer_kinds) if kind == kinds.FULL}
        fields.values["per_layer_config"] = full
    return shared_tail(fields, by_kind(fields, layer_kinds))


def mimo(fields: Fields) -> Built:
    """MiMo-V2: windowed layers have twice the KV heads, or what the swa_ fields say."""
    layer_kinds = kinds.listed(fields) or kinds.mimo_windows(fields)
    names = ("num_key_value_heads", "head_dim", "v_head_dim")
    own = {name: fields.get(f"swa_{name}") for name in names if fields.get(f"swa_{name}")}
    own.setdefault("num_key_value_heads", 2 * fields.count("num_key_value_heads"))
    if fields.get("per_layer_config") is None:
        sliding = [i for i, kind in enumerate(layer_kinds) if kind == kinds.SLIDING]
        fields.values["per_layer_config"] = {str(i): own for i in sliding}
    return by_kind(fields, layer_kinds)


def hunyuan(fields: Fields) -> Built:
    """Cross-layer attention: with `use_cla`, one layer in `cla_share_factor` owns KV."""
    factor = fields.count("cla_share_factor", default=2) if fields.get("use_cla") is True else 1
    cache = full_attention(fields)
    return tuple((cache,) if i % factor == 0 else () for i in range(fields.num_layers))


def longcat(fields: Fields) -> Built:
    """Every layer has two attention blocks: 28 num_layers keep 56 latent caches."""
    cache = latent_attention(fields)
    return ((cache, cache),) * fields.num_layers


def glm_dsa(fields: Fields) -> Built:
    """Layers that reuse the token choice of an earlier one ("shared") keep no indexer keys."""
    owner = latent_attention(fields)
    reader = replace(owner, index_dim=0)
    return tuple((owner if own else reader,) for own in _own_indexer(fields))


def _own_indexer(fields: Fields) -> list[bool]:
    modes = fields.get("indexer_types")
    if modes is not None:
        return [mode in ("full", "F") for mode in modes]
    pattern = fields.get("index_topk_pattern")
    if pattern is not None:
        return [mode in ("full", "F") for mode in pattern]
    every = fields.count("index_topk_freq", default=1)
    skip = fields.at_least_zero("index_skip_topk_offset") or 2
    return [max(i - skip + 1, 0) % every == 0 for i in range(fields.num_layers)]


def falcon_h1(fields: Fields) -> Built:
    """Attention and Mamba-2 side by side in every layer."""
    return ((full_attention(fields), mamba2(fields)),) * fields.num_layers


def zamba2(fields: Fields) -> Built:
    """Mamba-2 everywhere; a hybrid layer adds attention over twice the hidden size."""
    layer_kinds = kinds.listed(fields)
    if layer_kinds is None:
        raise ModelError("This Zamba2 config has no layers_block_type.")
    heads, hidden = fields.count("num_attention_heads"), fields.count("hidden_size")
    fields.values["head_dim"] = fields.get("attention_head_dim") or 2 * hidden // heads
    return by_kind(fields, layer_kinds, mamba2)


def encoder_decoder(fields: Fields) -> Built:
    """Decoder layers keep their own K and V, and those of the encoder's tokens (a fixed number)."""
    num_layers = fields.count("decoder_layers", "num_decoder_layers", "num_layers")
    heads = fields.count("decoder_attention_heads", "num_heads")
    dim = fields.get("d_kv") or fields.count("d_model") // heads
    shape = Geometry(heads, heads, dim, dim)
    length = fields.count(
        "max_source_positions", "max_position_embeddings", "n_positions", default=512
    )
    fields.assume(f"encoder input of {length} tokens, the longest; --encoder-tokens changes it")
    cross = LayerCache(kind=CROSS, fixed_tokens=length, **shape._asdict())
    return ((attention(FULL, shape), cross),) * num_layers


IMAGE_TOKENS = 6404  # Llama 3.2 Vision: 4 tiles of (560/14)^2 + 1 patches


def mllama(fields: Fields) -> Built:
    """`cross_attention_layers` keep K and V of the image's tokens only."""
    own = full_attention(fields)
    cross = replace(own, kind=CROSS, fixed_tokens=IMAGE_TOKENS)
    at = set(fields.numbers("cross_attention_layers"))
    fields.assume(
        f"one image of 4 tiles: {IMAGE_TOKENS} vision tokens; --encoder-tokens changes it"
    )
    return tuple((cross if i in at else own,) for i in range(fields.num_layers))
