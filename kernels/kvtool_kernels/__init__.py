"""Paged-KV operations. The PyTorch functions in `reference/` are the definition of each.

A layer's KV is a strided view of its group's pool, [num_blocks, num_layers, …][:, layer]:

    kind "kv"      kv_cache [num_blocks, 2, num_kv_heads, block_size, head_dim]
    kind "latent"  kv_cache [num_blocks, block_size, latent + rope]   (MLA: one row, no V)

Only the last dimension must be contiguous. `slot = block_id * block_size + offset`.
All ops write into tensors they are given and return nothing.
"""

from __future__ import annotations

import torch

from kvtool_kernels.dispatch import select
from kvtool_kernels.rotary import Rotary, RotaryTable, rotate, unit_rotation

__all__ = [
    "Rotary",
    "RotaryTable",
    "attention_mass",
    "copy_blocks",
    "paged_attention",
    "rope_shift",
    "rotate",
    "store_kv",
    "unit_rotation",
]


def store_kv(
    key: torch.Tensor, value: torch.Tensor | None, kv_cache: torch.Tensor, slots: torch.Tensor
) -> None:
    """Write one K and V row a token into its slot.

    key, value: [num_tokens, num_kv_heads, head_dim]; latent: key [num_tokens, latent + rope],
    value None. slots: int64 [num_tokens], distinct; rows with slot -1 are skipped (their KV is
    cached already). Values are cast to the cache's dtype.
    """
    select("store_kv", kv_cache.device)(key, value, kv_cache, slots)


def paged_attention(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    out: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    positions: torch.Tensor,
    entries: torch.Tensor,
    cu_entries: torch.Tensor,
    *,
    scale: float,
    max_query_len: int,
    window: int | None = None,
    chunk: int | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    latent_dim: int | None = None,
    rope: Rotary | None = None,
    at_read: RotaryTable | None = None,
) -> None:
    """Causal attention of packed query rows over paged KV (PagedAttention, Kwon et al., 2023).

    query: [num_tokens, num_heads, head_dim], sequence s in rows
    [cu_seqlens_q[s], cu_seqlens_q[s + 1]). out: [num_tokens, num_heads, head_dim]; latent:
    [num_tokens, num_heads, latent_dim], the weighted sum of latents (absorbed MLA).
    positions: int32 [num_tokens], in tokens; need not be contiguous within a sequence.
    entries: int32 [num_entries, 5] rows (block_id, offset, start, length, delta); those of
    sequence s, [cu_entries[s], cu_entries[s + 1]), tile the positions [0, n). Slot offset + i
    holds the key of position start + i, rotated for start + i - delta.

    A row at position q sees the key at position k when k <= q, k > q - window (window counts the
    token itself) and k // chunk == q // chunk. Scores are scale * q·k, then
    softcap * tanh(score / softcap); sinks [num_heads] are extra logits in the denominator.
    Query head h reads KV head h // (num_heads / num_kv_heads).

    rope: where delta != 0 the query is turned by -delta in fp32 (angles in float64) and the
    cached key is left alone. None: the layer has no rotary embedding, or no entry of this
    batch has a delta.
    at_read: query and cached keys are not rotated yet. A row at position q is turned by the
    table's R(q), the key at position k by R(k), in fp32; deltas then mean nothing, since a key
    without rotation stands anywhere. Excludes rope. None with such keys: NoPE.
    max_query_len: the longest sequence's number of query rows.
    """
    select("paged_attention", kv_cache.device)(
        query,
        kv_cache,
        out,
        cu_seqlens_q,
        positions,
        entries,
        cu_entries,
        scale=scale,
        max_query_len=max_query_len,
        window=window,
        chunk=chunk,
        softcap=softcap,
        sinks=sinks,
        latent_dim=latent_dim,
        rope=rope,
        at_read=at_read,
    )


def attention_mass(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    out: torch.Tensor,
    mass: torch.Tensor,
    first: int,
    positions: torch.Tensor,
    entries: torch.Tensor,
    *,
    scale: float,
    window: int | None = None,
    chunk: int | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    latent_dim: int | None = None,
    rope: Rotary | None = None,
    at_read: RotaryTable | None = None,
) -> None:
    """`paged_attention` of one sequence's rows that also says what they looked at.

    mass: float64 [num_keys]; mass[i] grows by the weight that the key at position first + i has
    in the softmax, summed over all rows and heads. A key that a row does not see (behind it,
    outside its window or chunk) gets nothing from it; what a sink takes is nobody's.
    The other arguments are those of `paged_attention`, where `entries` are this sequence's.
    """
    select("attention_mass", kv_cache.device)(
        query,
        kv_cache,
        out,
        mass,
        first,
        positions,
        entries,
        scale=scale,
        window=window,
        chunk=chunk,
        softcap=softcap,
        sinks=sinks,
        latent_dim=latent_dim,
        rope=rope,
        at_read=at_read,
    )


def rope_shift(
    kv_cache: torch.Tensor,
    source_slots: torch.Tensor,
    target_slots: torch.Tensor,
    deltas: torch.Tensor,
    rope: Rotary,
) -> None:
    """Copy KV rows to other slots with K moved by delta positions (llama.cpp's K-shift).

    source_slots, target_slots: int64 [num_tokens], no slot in both; deltas: int32 [num_tokens],
    new minus old position. K becomes R(delta) K in fp32, V is copied; delta 0 copies exactly.
    Latent rows: only the rotated values change. The rotation is a unit rotation.
    """
    select("rope_shift", kv_cache.device)(kv_cache, source_slots, target_slots, deltas, rope)


def copy_blocks(pool: torch.Tensor, copies: torch.Tensor) -> None:
    """Copy the first slots of blocks onto other blocks in all layers (copy-on-write).

    pool: [num_blocks, num_layers, 2, num_kv_heads, block_size, head_dim] or, latent,
    [num_blocks, num_layers, block_size, latent + rope]. copies: int32 [num_copies, 3] rows
    (source block, target block, num_slots); no target is a source or another's target.
    """
    select("copy_blocks", pool.device)(pool, copies)
