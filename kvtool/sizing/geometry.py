"""Heads and head sizes of an attention layer, from whatever fields a config has.

Order: an explicit head_dim wins over hidden/heads, a multi-query flag wins over a stored head
count (a Falcon-7B config that went through transformers says 71 KV heads and multi_query).
"""

from __future__ import annotations

from typing import NamedTuple

from kvtool.errors import ModelError
from kvtool.sizing.fields import HEADS, HIDDEN, Fields
from kvtool.sizing.layers import FULL, LATENT, LayerCache


class Geometry(NamedTuple):
    num_heads: int
    num_kv_heads: int
    k_dim: int
    v_dim: int


def geometry(fields: Fields) -> Geometry:
    num_heads = fields.count(*HEADS)
    kv_heads = num_kv_heads(fields, num_heads)
    if num_heads % kv_heads:
        raise ModelError(f"{kv_heads} KV heads do not divide {num_heads} attention heads.")
    k_dim = head_dim(fields, num_heads)
    return Geometry(num_heads, kv_heads, k_dim, fields.count("v_head_dim", default=k_dim))


def num_kv_heads(fields: Fields, num_heads: int) -> int:
    if fields.get("new_decoder_architecture") is not True and fields.get("multi_query") is True:
        return 1
    if fields.get("multi_query_attention") is True:
        return fields.count("multi_query_group_num")
    attention = fields.values.get("attn_config")
    if isinstance(attention, dict) and attention.get("kv_n_heads"):
        return int(attention["kv_n_heads"])
    names = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "num_attention_groups")
    if fields.get(*names) is None:
        fields.assume("no KV head count in the config: one KV head per attention head (MHA)")
    return fields.count(*names, default=num_heads)


def head_dim(fields: Fields, num_heads: int) -> int:
    names = ("head_dim", "kv_channels", "attention_head_dim", "d_kv")
    if fields.get(*names) is not None:
        return fields.count(*names)
    hidden = fields.count(*HIDDEN)
    if hidden % num_heads:
        raise ModelError(
            f"No head_dim in the config, and {num_heads} heads do not divide hidden_size {hidden}."
        )
    return hidden // num_heads


def full_attention(fields: Fields) -> LayerCache:
    return attention(FULL, geometry(fields))


def attention(kind: str, shape: Geometry, window: int | None = None) -> LayerCache:
    return LayerCache(kind=kind, window=window, **shape._asdict())


def latent_attention(fields: Fields) -> LayerCache:
    """MLA (DeepSeek-V2): the cached row is latent + rope; head_dim and KV heads are decoys."""
    latent, rope = fields.count("kv_lora_rank"), fields.count("qk_rope_head_dim")
    index_dim = fields.at_least_zero("index_head_dim")
    return LayerCache(
        kind=LATENT,
        num_heads=fields.count(*HEADS),
        num_kv_heads=1,
        k_dim=latent + rope,
        latent_dim=latent,
        index_dim=index_dim,
        index_topk=fields.count("index_topk", default=2048) if index_dim else None,
    )
