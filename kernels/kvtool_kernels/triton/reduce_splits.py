"""Join the parts of a split decode row into its output (Flash-Decoding, Dao et al., 2023)."""

import triton
import triton.language as tl


@triton.jit
def reduce_splits_kernel(
    mixed_ptr,  # fp32 [num_seqs, num_heads, num_splits, value_dim]
    stats_ptr,  # fp32 [num_seqs, num_heads, num_splits, 2]: denominator, maximum (log2)
    out_ptr,
    cu_seqlens_q_ptr,
    out_stride_token,
    out_stride_head,
    num_heads,
    num_splits,
    value_dim,
    SPLITS: tl.constexpr,
    DIMS: tl.constexpr,
):
    sequence = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1).to(tl.int64)
    token = tl.load(cu_seqlens_q_ptr + sequence)
    if tl.load(cu_seqlens_q_ptr + sequence + 1) - token != 1:
        return
    first_part = (sequence * num_heads + head) * num_splits
    splits = tl.arange(0, SPLITS)
    stats_ptrs = stats_ptr + (first_part + splits) * 2
    known = splits < num_splits
    denominators = tl.load(stats_ptrs, mask=known, other=0.0)
    maxima = tl.load(stats_ptrs + 1, mask=known, other=-float("inf"))
    highest = tl.max(maxima, 0)
    weights = tl.exp2(maxima - tl.where(highest == -float("inf"), 0.0, highest))
    denominator = tl.sum(denominators * weights, 0)

    dims = tl.arange(0, DIMS)
    mask = dims < value_dim
    parts = mixed_ptr + (first_part + splits)[:, None] * value_dim + dims[None, :]
    mixed = tl.load(parts, mask=known[:, None] & mask[None, :], other=0.0)
    value = tl.sum(mixed * weights[:, None], 0) / tl.where(denominator == 0, 1.0, denominator)
    out_ptrs = out_ptr + token.to(tl.int64) * out_stride_token + head * out_stride_head + dims
    tl.store(out_ptrs, value.to(out_ptr.dtype.element_ty), mask=mask)
