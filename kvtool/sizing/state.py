"""Recurrent layers: a fixed state per sequence, independent of its length.

The convolution keeps kernel - 1 steps in the compute dtype (taken as 2 bytes), the recurrence is
kept in fp32. Sources: Gated DeltaNet (Yang et al. 2024), Mamba (Gu & Dao 2023), Mamba-2 (Dao & Gu
2024), lightning attention (MiniMax-01), Griffin (De et al. 2024), RWKV-4 (Peng et al. 2023).
"""

from __future__ import annotations

from kvtool.sizing.fields import HIDDEN, Fields
from kvtool.sizing.geometry import geometry
from kvtool.sizing.layers import STATE, LayerCache


def gated_delta_net(fields: Fields) -> LayerCache:
    k_values = fields.count("linear_num_key_heads") * fields.count("linear_key_head_dim")
    v_heads, v_dim = fields.count("linear_num_value_heads"), fields.count("linear_value_head_dim")
    steps = fields.count("linear_conv_kernel_dim") - 1
    return LayerCache(
        kind=STATE,
        conv_values=steps * (2 * k_values + v_heads * v_dim),
        recurrent_values=v_heads * fields.count("linear_key_head_dim") * v_dim,
    )


def kimi_delta(fields: Fields) -> LayerCache:
    nested = fields.get("linear_attn_config") or {}
    inner = Fields({**fields.values, **nested, "linear_attn_config": None})
    heads = inner.count("linear_num_heads", "num_heads")
    dim = inner.count("linear_head_dim", "head_dim")
    steps = inner.count("linear_conv_kernel_dim", "short_conv_kernel_size") - 1
    return LayerCache(
        kind=STATE, conv_values=steps * 3 * heads * dim, recurrent_values=heads * dim * dim
    )


def mamba1(fields: Fields) -> LayerCache:
    expand = fields.count("mamba_expand", "expand", default=2)
    inner = fields.count("d_inner", default=expand * fields.count(*HIDDEN))
    steps = fields.count("mamba_d_conv", "conv_kernel", "d_conv") - 1
    values = inner * fields.count("mamba_d_state", "state_size", "ssm_state_size")
    return LayerCache(kind=STATE, conv_values=steps * inner, recurrent_values=values)


def mamba2(fields: Fields) -> LayerCache:
    heads = fields.count("mamba_num_heads", "mamba_n_heads", "n_mamba_heads", "num_heads")
    dim = fields.get("mamba_head_dim", "mamba_d_head", "mamba_headdim")
    if not isinstance(dim, int):
        inner = fields.get("mamba_d_ssm")
        if inner is None:
            inner = fields.count("mamba_expand", "expand", default=2) * fields.count(*HIDDEN)
        dim = inner // heads
    size = fields.count("mamba_d_state", "ssm_state_size", "state_size")
    groups = fields.count("mamba_n_groups", "mamba_ngroups", "n_groups", default=1)
    steps = fields.count("mamba_d_conv", "conv_kernel") - 1
    return LayerCache(
        kind=STATE,
        conv_values=steps * (heads * dim + 2 * groups * size),
        recurrent_values=heads * dim * size,
    )


def lightning_attention(fields: Fields) -> LayerCache:
    shape = geometry(fields)
    return LayerCache(kind=STATE, recurrent_values=shape.num_heads * shape.k_dim * shape.k_dim)


def short_conv(fields: Fields) -> LayerCache:
    steps = fields.count("conv_L_cache") - 1
    return LayerCache(kind=STATE, conv_values=steps * fields.count(*HIDDEN))


def gated_linear_recurrence(fields: Fields) -> LayerCache:
    width = fields.count("lru_width", *HIDDEN)
    steps = fields.count("conv1d_width") - 1
    return LayerCache(kind=STATE, conv_values=steps * width, recurrent_values=width)


def rwkv4(fields: Fields) -> LayerCache:
    """The previous token's two inputs in the compute dtype; numerator, denominator, maximum."""
    hidden = fields.count(*HIDDEN)
    width = fields.count("attention_hidden_size", default=hidden)
    return LayerCache(kind=STATE, conv_values=2 * hidden, recurrent_values=3 * width)
