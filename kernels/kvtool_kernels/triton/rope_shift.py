"""Copy KV to other slots, with K turned by delta in fp32."""

import torch
import triton
import triton.language as tl

from kvtool_kernels.rotary import Rotary
from kvtool_kernels.triton.rotation import rotation

TILE_VALUES = 2048  # values of one token a program turns at a time


@triton.jit
def rope_shift_kernel(
    kv_ptr,
    sources_ptr,
    targets_ptr,
    deltas_ptr,
    inv_freq_ptr,
    kv_stride_block,
    kv_stride_plane,
    kv_stride_head,
    kv_stride_slot,
    num_heads,
    block_size,
    head_dim,
    START: tl.constexpr,
    HALF: tl.constexpr,
    INTERLEAVED: tl.constexpr,
    HAS_VALUE: tl.constexpr,
    HEADS: tl.constexpr,
    DIMS: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    source = tl.load(sources_ptr + token)
    target = tl.load(targets_ptr + token)
    delta = tl.load(deltas_ptr + token)
    source_ptr = kv_ptr + source // block_size * kv_stride_block
    source_ptr += source % block_size * kv_stride_slot
    target_ptr = kv_ptr + target // block_size * kv_stride_block
    target_ptr += target % block_size * kv_stride_slot

    heads = (tl.program_id(1).to(tl.int64) * HEADS + tl.arange(0, HEADS))[:, None]
    dims = tl.arange(0, DIMS)
    mask = (heads < num_heads) & (dims < head_dim)[None, :]
    rows = heads * kv_stride_head  # [HEADS, 1]
    partner, cos, sin = rotation(delta, dims, inv_freq_ptr, START, HALF, INTERLEAVED)
    key = tl.load(source_ptr + rows + dims[None, :], mask=mask, other=0.0)
    paired = tl.load(source_ptr + rows + partner[None, :], mask=mask, other=0.0)
    turned = key.to(tl.float32) * cos[None, :] + paired.to(tl.float32) * sin[None, :]
    tl.store(target_ptr + rows + dims[None, :], turned.to(kv_ptr.dtype.element_ty), mask=mask)
    if HAS_VALUE:
        plane = kv_stride_plane + rows + dims[None, :]
        value = tl.load(source_ptr + plane, mask=mask, other=0.0)
        tl.store(target_ptr + plane, value, mask=mask)


def rope_shift(
    kv_cache: torch.Tensor,
    source_slots: torch.Tensor,
    target_slots: torch.Tensor,
    deltas: torch.Tensor,
    rope: Rotary,
) -> None:
    """See `kvtool_kernels.rope_shift`."""
    cache = kv_cache[:, None, None] if kv_cache.dim() == 3 else kv_cache
    _, _, num_heads, block_size, head_dim = cache.shape
    assert cache.stride(4) == 1 and rope.end <= head_dim
    assert source_slots.dtype == target_slots.dtype == torch.int64
    assert deltas.dtype == torch.int32 and rope.inv_freq.dtype == torch.float64
    assert source_slots.shape == target_slots.shape == deltas.shape
    for tensor in (source_slots, target_slots, deltas, rope.inv_freq):
        assert tensor.is_contiguous() and tensor.device == kv_cache.device
    if len(deltas) == 0:
        return
    dims = triton.next_power_of_2(head_dim)
    heads = min(triton.next_power_of_2(num_heads), max(1, TILE_VALUES // dims))
    rope_shift_kernel[(len(deltas), triton.cdiv(num_heads, heads))](
        cache,
        source_slots,
        target_slots,
        deltas,
        rope.inv_freq,
        *cache.stride()[:4],
        num_heads,
        block_size,
        head_dim,
        START=rope.start,
        HALF=len(rope.inv_freq),
        INTERLEAVED=rope.interleaved,
        HAS_VALUE=kv_cache.dim() == 5,
        HEADS=heads,
        DIMS=dims,
    )
