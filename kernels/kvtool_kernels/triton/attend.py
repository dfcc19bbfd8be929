"""One tile of query rows against a range of block-table entries (online softmax).

The loop is FlashAttention's (Dao et al., 2022) with keys fetched through the block table. A
tile of keys is ENTRIES whole entries: lane n holds slot n % SLOTS of entry n // SLOTS, so
entries of any offset, length and position need no search; lanes beyond an entry's length are
masked in every load, for unused slots may hold NaN.

MLA rows split into the latent (MAIN) and the rotated values (TAIL > 0); V is the latent again.

TURN: entries may have deltas, for which the query is turned. AT_READ: queries and keys come
without their rotation and get it here, each for its position.
"""

import triton
import triton.language as tl

from kvtool_kernels.triton.rotation import load_turned, rotation

LOG2_E = tl.constexpr(1.4426950408889634)
FAR = tl.constexpr(2147483647)


@triton.jit
def load_turned_query(
    query_ptr, rows, row_mask, dims, dim_end, delta, inv_freq_ptr,
    START: tl.constexpr, HALF: tl.constexpr, INTERLEAVED: tl.constexpr, UPCAST: tl.constexpr,
):  # fmt: skip
    """R(-delta) q in fp32, then rounded to the query's dtype for the dot."""
    partner, cos, sin = rotation(-delta, dims, inv_freq_ptr, START, HALF, INTERLEAVED)
    mask = row_mask[:, None] & (dims < dim_end)[None, :]
    query = tl.load(query_ptr + rows[:, None] + dims[None, :], mask=mask, other=0.0)
    paired = tl.load(query_ptr + rows[:, None] + partner[None, :], mask=mask, other=0.0)
    turned = query.to(tl.float32) * cos[None, :] + paired.to(tl.float32) * sin[None, :]
    return turned.to(tl.float32 if UPCAST else query_ptr.dtype.element_ty)


@triton.jit
def load_rows(row_ptrs, row_mask, dims, dim_end, DTYPE: tl.constexpr):
    mask = row_mask[:, None] & (dims < dim_end)[None, :]
    return tl.load(row_ptrs[:, None] + dims[None, :], mask=mask, other=0.0).to(DTYPE)


@triton.jit
def load_parts(
    row_ptrs, row_mask, positions, cos_ptr, sin_ptr,
    MAIN: tl.constexpr, MAIN_DIMS: tl.constexpr, TAIL: tl.constexpr, TAIL_DIMS: tl.constexpr,
    AT_READ: tl.constexpr, START: tl.constexpr, HALF: tl.constexpr, INTERLEAVED: tl.constexpr,
    DTYPE: tl.constexpr,
):  # fmt: skip
    """(main, tail) of queries or keys; without a TAIL both are the whole row. With AT_READ the
    part that turns (the tail, if there is one) is turned for the row's position."""
    dims = tl.arange(0, MAIN_DIMS)
    turning_dims = MAIN + tl.arange(0, TAIL_DIMS) if TAIL > 0 else dims
    if AT_READ:
        tail = load_turned(
            row_ptrs, row_mask, turning_dims, MAIN + TAIL, positions, cos_ptr, sin_ptr,
            START, HALF, INTERLEAVED, DTYPE,
        )  # fmt: skip
    else:
        tail = load_rows(row_ptrs, row_mask, turning_dims, MAIN + TAIL, DTYPE)
    main = load_rows(row_ptrs, row_mask, dims, MAIN, DTYPE) if TAIL > 0 else tail
    return main, tail


@triton.jit
def lanes_of(
    entries_ptr, first, last, kv_stride_block, kv_stride_slot,
    SLOTS: tl.constexpr, ENTRIES: tl.constexpr,
):  # fmt: skip
    """Of each lane [N]: where its row lies in the cache, its position, its delta, its mask."""
    index = first + tl.arange(0, SLOTS * ENTRIES) // SLOTS
    lane_slot = tl.arange(0, SLOTS * ENTRIES) % SLOTS
    known = index < last
    entry_ptrs = entries_ptr + index.to(tl.int64) * 5
    block = tl.load(entry_ptrs, mask=known, other=0).to(tl.int64)
    slot = tl.load(entry_ptrs + 1, mask=known, other=0).to(tl.int64) + lane_slot
    positions = tl.load(entry_ptrs + 2, mask=known, other=0) + lane_slot
    lane_mask = lane_slot < tl.load(entry_ptrs + 3, mask=known, other=0)
    deltas = tl.load(entry_ptrs + 4, mask=known, other=0)
    return block * kv_stride_block + slot * kv_stride_slot, positions, deltas, lane_mask


@triton.jit
def see(lane_mask, key_positions, row_positions, WINDOW: tl.constexpr, CHUNK: tl.constexpr):
    """Which key each row sees, [M, N]."""
    keys, rows = key_positions[None, :], row_positions[:, None]
    visible = lane_mask[None, :] & (keys <= rows)
    if WINDOW > 0:
        visible &= keys > rows - WINDOW
    if CHUNK > 0:
        visible &= keys // CHUNK == rows // CHUNK
    return visible


@triton.jit
def dot_keys(query, tail_query, key, tail_key, TAIL: tl.constexpr):
    scores = tl.dot(query, tl.trans(key), input_precision="ieee")
    if TAIL > 0:
        scores = tl.dot(tail_query, tl.trans(tail_key), scores, input_precision="ieee")
    return scores


@triton.jit
def absorb(scores, visible, value, mixed, denominator, highest, softcap, SOFTCAP: tl.constexpr):
    """One step of the online softmax: scaled scores fp32 [M, N], value [N, MAIN_DIMS]."""
    if SOFTCAP:  # softcap * tanh(scores / softcap)
        scores = softcap * (1 - 2 / (tl.exp(scores * (2 / softcap)) + 1))
    scores = tl.where(visible, scores * LOG2_E, -float("inf"))
    raised = tl.maximum(highest, tl.max(scores, 1))
    base = tl.where(raised == -float("inf"), 0.0, raised)  # a row that has seen no key yet
    weights = tl.exp2(scores - base[:, None])
    decay = tl.exp2(highest - base)
    denominator = denominator * decay + tl.sum(weights, 1)
    mixed = tl.dot(weights.to(value.dtype), value, mixed * decay[:, None], input_precision="ieee")
    return mixed, denominator, raised


@triton.jit
def attend(
    query_ptr, rows, row_mask, row_positions, highest, denominator,
    kv_ptr, kv_stride_block, kv_stride_plane, kv_stride_slot,
    entries_ptr, first_entry, last_entry, inv_freq_ptr, cos_ptr, sin_ptr, scale, softcap,
    M: tl.constexpr, MAIN: tl.constexpr, MAIN_DIMS: tl.constexpr, TAIL: tl.constexpr,
    TAIL_DIMS: tl.constexpr, SLOTS: tl.constexpr, ENTRIES: tl.constexpr, WINDOW: tl.constexpr,
    CHUNK: tl.constexpr, SOFTCAP: tl.constexpr, TURN: tl.constexpr, AT_READ: tl.constexpr,
    START: tl.constexpr, HALF: tl.constexpr, INTERLEAVED: tl.constexpr, UPCAST: tl.constexpr,
):  # fmt: skip
    """rows: int64 [M], offset of each query row; kv_ptr: at the KV head; highest (log2) and
    denominator [M]: where the softmax starts. -> (weighted values [M, MAIN_DIMS], those two)."""
    dtype: tl.constexpr = tl.float32 if UPCAST else query_ptr.dtype.element_ty
    turning_dims = MAIN + tl.arange(0, TAIL_DIMS) if TAIL > 0 else tl.arange(0, MAIN_DIMS)
    query, tail_query = load_parts(
        query_ptr + rows, row_mask, row_positions, cos_ptr, sin_ptr,
        MAIN, MAIN_DIMS, TAIL, TAIL_DIMS, AT_READ, START, HALF, INTERLEAVED, dtype,
    )  # fmt: skip
    query_delta = tl.full((), 0, tl.int32)  # what the part of the query that turns is turned for
    mixed = tl.zeros([M, MAIN_DIMS], tl.float32)

    for entry in range(first_entry, last_entry, ENTRIES):
        kv_rows, key_positions, deltas, lane_mask = lanes_of(
            entries_ptr, entry, last_entry, kv_stride_block, kv_stride_slot, SLOTS, ENTRIES
        )
        kv_ptrs = kv_ptr + kv_rows
        key, tail_key = load_parts(
            kv_ptrs, lane_mask, key_positions, cos_ptr, sin_ptr,
            MAIN, MAIN_DIMS, TAIL, TAIL_DIMS, AT_READ, START, HALF, INTERLEAVED, dtype,
        )  # fmt: skip
        value = key
        if TAIL == 0:
            dims = tl.arange(0, MAIN_DIMS)
            value = load_rows(kv_ptrs + kv_stride_plane, lane_mask, dims, MAIN, dtype)
        visible = see(lane_mask, key_positions, row_positions, WINDOW, CHUNK)
        if TURN:
            delta = tl.min(tl.where(lane_mask, deltas, FAR), 0)
            last_delta = tl.max(tl.where(lane_mask, deltas, -FAR), 0)
            while delta <= last_delta:  # once, unless the tile holds several deltas
                if delta != query_delta:
                    turned = load_turned_query(
                        query_ptr, rows, row_mask, turning_dims, MAIN + TAIL, delta,
                        inv_freq_ptr, START, HALF, INTERLEAVED, UPCAST,
                    )  # fmt: skip
                    if TAIL > 0:
                        tail_query = turned
                    else:
                        query = turned
                    query_delta = delta
                scores = dot_keys(query, tail_query, key, tail_key, TAIL) * scale
                seen = visible & (deltas == delta)[None, :]
                mixed, denominator, highest = absorb(
                    scores, seen, value, mixed, denominator, highest, softcap, SOFTCAP
                )
                delta = tl.min(tl.where(lane_mask & (deltas > delta), deltas, FAR), 0)
        else:
            scores = dot_keys(query, tail_query, key, tail_key, TAIL) * scale
            mixed, denominator, highest = absorb(
                scores, visible, value, mixed, denominator, highest, softcap, SOFTCAP
            )
    return mixed, denominator, highest
