"""Attention of packed query rows over paged KV: prefill tiles, and decode split over the keys.

A program takes the query rows of BLOCK_Q tokens x HEADS query heads of one KV head, so a key is
read once for all heads that share it. Sequences with one row (decode) are too few programs to
fill a GPU; their keys are split over programs and joined by `reduce_splits`.
"""

from typing import Any

import torch
import triton
import triton.language as tl

from kvtool_kernels.rotary import Rotary, RotaryTable
from kvtool_kernels.triton.attend import LOG2_E, attend
from kvtool_kernels.triton.checks import check_rotation, check_shapes, check_tables
from kvtool_kernels.triton.reduce_splits import reduce_splits_kernel
from kvtool_kernels.triton.tiles import num_splits, select_tiles


@triton.jit
def entries_in_sight(
    entries_ptr, cu_entries_ptr, sequence, block_size, row_mask, row_positions,
    WINDOW: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """[first, last) of the entries that any row may see. Entries hold at most block_size tokens,
    which bounds the index of a position's entry from both ends of the table: no search."""
    first_entry = tl.load(cu_entries_ptr + sequence)
    last_entry = tl.load(cu_entries_ptr + sequence + 1)
    end_ptr = entries_ptr + (last_entry - 1).to(tl.int64) * 5
    num_tokens = tl.load(end_ptr + 2) + tl.load(end_ptr + 3)
    lowest_row = tl.min(tl.where(row_mask, row_positions, num_tokens), 0)
    unseen = tl.maximum(num_tokens - tl.max(row_positions, 0), 1)
    if WINDOW > 0:
        first_entry += tl.maximum(lowest_row - WINDOW + 1, 0) // block_size
    elif CHUNK > 0:
        first_entry += lowest_row // CHUNK * CHUNK // block_size
    return first_entry, last_entry - tl.cdiv(unseen, block_size) + 1


@triton.jit
def empty_softmax(sinks_ptr, heads, row_mask, counts_sinks, M: tl.constexpr, SINKS: tl.constexpr):
    """Maximum (log2) and denominator before the first key; one split alone counts the sinks."""
    highest = tl.full([M], -float("inf"), tl.float32)
    denominator = tl.zeros([M], tl.float32)
    if SINKS:
        sinks = tl.load(sinks_ptr + heads, mask=row_mask, other=0.0).to(tl.float32) * LOG2_E
        highest = tl.where(counts_sinks, sinks, highest)
        denominator = tl.where(counts_sinks, 1.0, denominator)
    return highest, denominator


@triton.jit
def paged_attention_kernel(
    query_ptr, kv_ptr, out_ptr, mixed_ptr, stats_ptr,  # the last two with SPLIT, see reduce_splits
    cu_seqlens_q_ptr, positions_ptr, entries_ptr, cu_entries_ptr, sinks_ptr, inv_freq_ptr,
    cos_ptr, sin_ptr, scale, softcap, num_heads, group, block_size, tiles,  # tiles of BLOCK_Q tokens a sequence
    query_stride_token, query_stride_head, out_stride_token, out_stride_head,
    kv_stride_block, kv_stride_plane, kv_stride_head, kv_stride_slot,
    DECODE: tl.constexpr,  # serve the sequences with one row; otherwise those with more
    SPLIT: tl.constexpr, SINKS: tl.constexpr, BLOCK_M: tl.constexpr, HEADS: tl.constexpr,
    MAIN: tl.constexpr, MAIN_DIMS: tl.constexpr, TAIL: tl.constexpr, TAIL_DIMS: tl.constexpr,
    SLOTS: tl.constexpr, ENTRIES: tl.constexpr, WINDOW: tl.constexpr, CHUNK: tl.constexpr,
    SOFTCAP: tl.constexpr, TURN: tl.constexpr, AT_READ: tl.constexpr, START: tl.constexpr,
    HALF: tl.constexpr, INTERLEAVED: tl.constexpr, UPCAST: tl.constexpr,
):  # fmt: skip
    sequence = tl.program_id(0).to(tl.int64) // tiles
    query_start = tl.load(cu_seqlens_q_ptr + sequence)
    query_end = tl.load(cu_seqlens_q_ptr + sequence + 1)
    first_token = query_start + tl.program_id(0) % tiles * (BLOCK_M // HEADS)
    served = (query_end - query_start == 1) if DECODE else (query_end - query_start > 1)
    if (first_token >= query_end) | (not served):
        return

    head_tiles = tl.cdiv(group, HEADS)
    kv_head = tl.program_id(1).to(tl.int64) // head_tiles
    row = tl.arange(0, BLOCK_M)
    token = (first_token + row // HEADS).to(tl.int64)
    in_group = tl.program_id(1) % head_tiles * HEADS + row % HEADS
    head = kv_head * group + in_group
    row_mask = (row < BLOCK_M // HEADS * HEADS) & (token < query_end) & (in_group < group)
    row_positions = tl.load(positions_ptr + token, mask=row_mask, other=0)
    first_entry, last_entry = entries_in_sight(
        entries_ptr, cu_entries_ptr, sequence, block_size, row_mask, row_positions, WINDOW, CHUNK
    )
    split = tl.program_id(2)
    if SPLIT:
        share = tl.cdiv(tl.cdiv(last_entry - first_entry, tl.num_programs(2)), ENTRIES) * ENTRIES
        first_entry += split * share
        last_entry = tl.minimum(first_entry + share, last_entry)
    highest, denominator = empty_softmax(sinks_ptr, head, row_mask, split == 0, BLOCK_M, SINKS)
    mixed, denominator, highest = attend(
        query_ptr, token * query_stride_token + head * query_stride_head, row_mask, row_positions,
        highest, denominator, kv_ptr + kv_head * kv_stride_head, kv_stride_block, kv_stride_plane,
        kv_stride_slot, entries_ptr, first_entry, last_entry, inv_freq_ptr, cos_ptr, sin_ptr,
        scale, softcap, BLOCK_M, MAIN, MAIN_DIMS, TAIL, TAIL_DIMS, SLOTS, ENTRIES, WINDOW, CHUNK, SOFTCAP,
        TURN, AT_READ, START, HALF, INTERLEAVED, UPCAST,
    )  # fmt: skip
    dims = tl.arange(0, MAIN_DIMS)[None, :]
    mask = row_mask[:, None] & (dims < MAIN)
    if SPLIT:
        part = (sequence * num_heads + head) * tl.num_programs(2) + split
        tl.store(mixed_ptr + part[:, None] * MAIN + dims, mixed, mask=mask)
        tl.store(stats_ptr + part * 2, denominator, mask=row_mask)
        tl.store(stats_ptr + part * 2 + 1, highest, mask=row_mask)
    else:  # a row that sees no key is 0
        value = mixed / tl.where(denominator == 0, 1.0, denominator)[:, None]
        out_rows = (token * out_stride_token + head * out_stride_head)[:, None]
        tl.store(out_ptr + out_rows + dims, value.to(out_ptr.dtype.element_ty), mask=mask)


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
    """See `kvtool_kernels.paged_attention`."""
    cache = kv_cache if latent_dim is None else kv_cache[:, None, None]
    check_rotation(query, latent_dim, rope, at_read)
    check_shapes(query, cache, out, latent_dim)
    check_tables(query, cu_seqlens_q, positions, entries, cu_entries, sinks)
    num_tokens, num_heads, head_dim = query.shape
    num_seqs = len(cu_seqlens_q) - 1
    if num_tokens == 0:
        return
    arguments = {
        "query_ptr": query,
        "kv_ptr": cache,
        "out_ptr": out,
        "cu_seqlens_q_ptr": cu_seqlens_q,
        "positions_ptr": positions,
        "entries_ptr": entries,
        "cu_entries_ptr": cu_entries,
        "sinks_ptr": sinks,
        "scale": scale,
        "softcap": softcap or 0.0,
        "num_heads": num_heads,
        "group": num_heads // cache.shape[2],
        "block_size": cache.shape[3],
        **_strides(query, cache, out),
        **_shape(head_dim, latent_dim),
        **_rotation(rope, at_read),
        "SINKS": sinks is not None,
        "SOFTCAP": softcap is not None,
        "WINDOW": window or 0,
        "CHUNK": chunk or 0,
        "UPCAST": not query.is_cuda,  # the interpreter computes tl.dot of bf16 wrongly
    }
    if max_query_len > 1:
        _launch(arguments, num_seqs, max_query_len)
    if max_query_len == 1 or num_tokens < num_seqs * max_query_len:  # some may have one row
        _launch(arguments, num_seqs, 1)


def _launch(arguments: dict[str, Any], num_seqs: int, max_query_len: int) -> None:
    """max_query_len 1: the sequences with one row (decode); else those with more (prefill)."""
    group, out = arguments["group"], arguments["out_ptr"]
    num_heads, value_dim = out.shape[1:]
    decode = max_query_len == 1
    head_dim = arguments["query_ptr"].shape[2]
    turn = arguments["TURN"] or arguments["AT_READ"]
    tiles = select_tiles(out.dtype, head_dim, decode=decode, turn=turn)
    heads = min(group, tiles.block_m)
    programs = num_heads // group * triton.cdiv(group, heads)
    sequence_tiles = triton.cdiv(max_query_len, tiles.block_m // heads)
    slots = triton.next_power_of_2(arguments["block_size"])
    splits = num_splits(out.device, num_seqs * programs) if decode else 1
    mixed = stats = None
    if splits > 1:
        parts = num_seqs, num_heads, splits
        mixed = torch.empty(*parts, value_dim, dtype=torch.float32, device=out.device)
        stats = torch.empty(*parts, 2, dtype=torch.float32, device=out.device)
    paged_attention_kernel[(num_seqs * sequence_tiles, programs, splits)](
        **arguments,
        mixed_ptr=mixed,
        stats_ptr=stats,
        tiles=sequence_tiles,
        DECODE=decode,
        SPLIT=splits > 1,
        BLOCK_M=tiles.block_m,
        HEADS=heads,
        SLOTS=slots,
        ENTRIES=max(1, tiles.block_n // slots),
        num_warps=tiles.num_warps,
        num_stages=tiles.num_stages,
    )
    if splits > 1:
        reduce_splits_kernel[(num_seqs, num_heads)](
            mixed,
            stats,
            out,
            arguments["cu_seqlens_q_ptr"],
            *out.stride()[:2],
            num_heads,
            splits,
            value_dim,
            SPLITS=triton.next_power_of_2(splits),
            DIMS=triton.next_power_of_2(value_dim),
        )


def _strides(query: torch.Tensor, cache: torch.Tensor, out: torch.Tensor) -> dict[str, int]:
    return {
        "query_stride_token": query.stride(0),
        "query_stride_head": query.stride(1),
        "kv_stride_block": cache.stride(0),
        "kv_stride_plane": cache.stride(1),
        "kv_stride_head": cache.stride(2),
        "kv_stride_slot": cache.stride(3),
        "out_stride_token": out.stride(0),
        "out_stride_head": out.stride(1),
    }


def _shape(head_dim: int, latent_dim: int | None) -> dict[str, Any]:
    main = head_dim if latent_dim is None else latent_dim
    tail = head_dim - main
    return {
        "MAIN": main,
        "MAIN_DIMS": max(16, triton.next_power_of_2(main)),
        "TAIL": tail,
        "TAIL_DIMS": max(16, triton.next_power_of_2(tail)),
    }


def _rotation(rope: Rotary | None, at_read: RotaryTable | None) -> dict[str, Any]:
    place = rope if at_read is None else at_read.rope
    return {
        "inv_freq_ptr": None if rope is None else rope.inv_freq,
        "cos_ptr": None if at_read is None else at_read.cos,
        "sin_ptr": None if at_read is None else at_read.sin,
        "TURN": rope is not None,
        "AT_READ": at_read is not None,
        "START": 0 if place is None else place.start,
        "HALF": 0 if place is None else len(place.inv_freq),
        "INTERLEAVED": place is not None and place.interleaved,
    }
