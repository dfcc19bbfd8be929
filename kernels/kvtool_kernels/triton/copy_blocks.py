"""Copy the first slots of blocks onto other blocks, all layers (copy-on-write)."""

import torch
import triton
import triton.language as tl

TILE_VALUES = 1024


@triton.jit
def copy_blocks_kernel(
    pool_ptr,
    copies_ptr,
    block_values,
    row_values,
    head_dim,
    TILE: tl.constexpr,
):
    copy = copies_ptr + tl.program_id(0).to(tl.int64) * 3
    row = tl.program_id(1).to(tl.int64) * row_values  # one layer, plane and head
    source = tl.load(copy).to(tl.int64) * block_values + row
    target = tl.load(copy + 1).to(tl.int64) * block_values + row
    num_values = tl.load(copy + 2).to(tl.int64) * head_dim
    for first in range(0, num_values, TILE):
        values = first + tl.arange(0, TILE)
        mask = values < num_values
        tl.store(
            pool_ptr + target + values,
            tl.load(pool_ptr + source + values, mask=mask, other=0.0),
            mask=mask,
        )


def copy_blocks(pool: torch.Tensor, copies: torch.Tensor) -> None:
    """See `kvtool_kernels.copy_blocks`."""
    assert pool.is_contiguous() and pool.dim() in (4, 6), (pool.shape, pool.stride())
    assert copies.dtype == torch.int32 and copies.is_contiguous()
    assert copies.dim() == 2 and copies.shape[1] == 3 and copies.device == pool.device
    if len(copies) == 0:
        return
    block_size, head_dim = pool.shape[-2:]
    rows = pool[0].numel() // (block_size * head_dim)
    copy_blocks_kernel[(len(copies), rows)](
        pool, copies, pool.stride(0), block_size * head_dim, head_dim, TILE=TILE_VALUES
    )
