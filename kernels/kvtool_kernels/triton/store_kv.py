"""Write new K and V rows into their slots."""

import torch
import triton
import triton.language as tl

TILE_VALUES = 2048  # values of one token a program copies at a time


@triton.jit
def store_kv_kernel(
    key_ptr,
    value_ptr,
    kv_ptr,
    slots_ptr,
    key_stride_token,
    key_stride_head,
    value_stride_token,
    value_stride_head,
    kv_stride_block,
    kv_stride_plane,
    kv_stride_head,
    kv_stride_slot,
    num_heads,
    block_size,
    head_dim,
    HAS_VALUE: tl.constexpr,
    HEADS: tl.constexpr,
    DIMS: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots_ptr + token)
    if slot < 0:
        return
    heads = (tl.program_id(1).to(tl.int64) * HEADS + tl.arange(0, HEADS))[:, None]
    dims = tl.arange(0, DIMS)[None, :]
    mask = (heads < num_heads) & (dims < head_dim)
    target = (slot // block_size) * kv_stride_block + (slot % block_size) * kv_stride_slot
    target_ptrs = kv_ptr + target + heads * kv_stride_head + dims
    key = tl.load(
        key_ptr + token * key_stride_token + heads * key_stride_head + dims, mask=mask, other=0.0
    )
    tl.store(target_ptrs, key.to(kv_ptr.dtype.element_ty), mask=mask)
    if HAS_VALUE:
        value = tl.load(
            value_ptr + token * value_stride_token + heads * value_stride_head + dims,
            mask=mask,
            other=0.0,
        )
        tl.store(target_ptrs + kv_stride_plane, value.to(kv_ptr.dtype.element_ty), mask=mask)


def store_kv(
    key: torch.Tensor, value: torch.Tensor | None, kv_cache: torch.Tensor, slots: torch.Tensor
) -> None:
    """See `kvtool_kernels.store_kv`."""
    if value is None:  # latent: one head, one plane
        key, cache = key[:, None], kv_cache[:, None, None]
        source = key
    else:
        cache, source = kv_cache, value
    num_tokens, num_heads, head_dim = key.shape
    assert cache.shape[2] == num_heads and cache.shape[4] == head_dim, (key.shape, kv_cache.shape)
    assert source.shape == key.shape and slots.shape == (num_tokens,)
    assert slots.dtype == torch.int64 and slots.is_contiguous()
    assert key.stride(2) == source.stride(2) == cache.stride(4) == 1
    assert key.device == source.device == kv_cache.device == slots.device
    if num_tokens == 0:
        return
    dims = triton.next_power_of_2(head_dim)
    heads = min(triton.next_power_of_2(num_heads), max(1, TILE_VALUES // dims))
    store_kv_kernel[(num_tokens, triton.cdiv(num_heads, heads))](
        key,
        source,
        cache,
        slots,
        *key.stride()[:2],
        *source.stride()[:2],
        *cache.stride()[:4],
        num_heads,
        cache.shape[3],
        head_dim,
        HAS_VALUE=value is not None,
        HEADS=heads,
        DIMS=dims,
    )
