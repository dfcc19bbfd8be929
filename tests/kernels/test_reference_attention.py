"""The reference attention against dense attention, and the properties kvtool relies on."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from paged_case import DEVICE, PagedCase, make_case, rotary

from kvtool_kernels.reference import paged_attention as module
from kvtool_kernels.reference.paged_attention import paged_attention
from kvtool_kernels.reference.rope_shift import rope_shift

MIXED = [(63, 63), (1, 1), (40, 1), (33, 7)]  # prefill, first token, decode, chunk behind a hit

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "mha": {"num_heads": 3, "num_kv_heads": 3, "head_dim": 24},
    "mqa": {"num_heads": 5, "num_kv_heads": 1, "head_dim": 80},
    "block-1": {"block_size": 1},
    "block-5-fragmented": {"block_size": 5, "fragmented": True},
    "window": {"window": 7},
    "window-1": {"window": 1, "fragmented": True},
    "chunk": {"chunk": 10},
    "window-and-chunk": {"window": 6, "chunk": 16, "block_size": 5},
    "softcap": {"softcap": 0.5},
    "sinks": {"sinks": True, "window": 9},
    "deltas": {"rope": rotary(16), "deltas": (0, 3, -3, 500), "fragmented": True},
    "deltas-window": {"rope": rotary(16), "deltas": (4, 4, -9), "window": 20, "block_size": 5},
    "nope-ignores-deltas": {"deltas": (5, -5)},
    "scattered": {"scattered": True, "fragmented": True},
    "latent": {"num_heads": 6, "num_kv_heads": 1, "head_dim": 32, "latent_dim": 24},
    "latent-deltas": {
        "num_kv_heads": 1,
        "head_dim": 32,
        "latent_dim": 24,
        "rope": rotary(8, interleaved=True, start=24),
        "deltas": (0, -11, 40),
        "fragmented": True,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_equals_dense_attention(name: str) -> None:
    case = make_case(MIXED, **CASES[name])
    torch.testing.assert_close(
        case.run(paged_attention).double(), case.expected(), atol=2e-6, rtol=2e-6
    )


def test_equals_torch_sdpa() -> None:
    case = make_case([(50, 50)], num_heads=6, num_kv_heads=2)
    query, (key, value) = case.arguments[0].double(), case.dense[0]
    key, value = (t.double().repeat_interleave(3, dim=1).transpose(0, 1) for t in (key, value))
    expected = torch.nn.functional.scaled_dot_product_attention(
        query.transpose(0, 1), key, value, is_causal=True
    )
    torch.testing.assert_close(
        case.run(paged_attention).double(), expected.transpose(0, 1), atol=2e-6, rtol=2e-6
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_maths_is_fp32_whatever_the_dtype(dtype: torch.dtype) -> None:
    """The only error is the rounding of the output."""
    case = make_case(MIXED, dtype=dtype, rope=rotary(16), deltas=(0, 1000), fragmented=True)
    expected = case.expected()
    rounding = torch.finfo(dtype).eps / 2
    error = (case.run(paged_attention).double() - expected).abs()
    assert bool((error <= rounding * expected.abs() * 1.01 + 1e-5).all())


def test_small_row_blocks_and_bounded_scores_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = make_case(MIXED, window=30, rope=rotary(16), deltas=(0, 7), fragmented=True)
    whole = case.run(paged_attention)
    monkeypatch.setattr(module, "ROW_BLOCK", 5)
    torch.testing.assert_close(case.run(paged_attention), whole, atol=1e-6, rtol=1e-6)
    monkeypatch.setattr(module, "MAX_SCORES", 4 * 40 * 2)
    torch.testing.assert_close(case.run(paged_attention), whole, atol=1e-6, rtol=1e-6)


@pytest.mark.report("S03")
@settings(max_examples=25)
@given(order=st.permutations(range(12)), seed=st.integers(0, 99))
def test_any_block_permutation_gives_the_same_bits(order: list[int], seed: int) -> None:
    """A hit with a new suffix and a miss in one batch, over a pool moved about at will."""
    case = make_case([(60, 9), (20, 20)], block_size=8, seed=seed)
    query, cache, out, cu_seqlens_q, positions, entries, cu_entries = case.arguments
    index = torch.tensor([*order, *range(12, len(cache))], device=DEVICE)
    moved = torch.full_like(cache, float("nan"))
    moved[index] = cache
    renamed = entries.clone()
    renamed[:, 0] = index[entries[:, 0].long()].to(torch.int32)
    arguments = (query, moved, out, cu_seqlens_q, positions, renamed, cu_entries)
    again = PagedCase(arguments, case.options, case.dense)
    assert torch.equal(again.run(paged_attention), case.run(paged_attention))


def test_a_row_does_not_depend_on_the_rest_of_the_batch() -> None:
    case = make_case(MIXED, rope=rotary(16), deltas=(0, 9), fragmented=True)
    batched = case.run(paged_attention)
    query, cache, out, cu_seqlens_q, positions, entries, cu_entries = case.arguments
    rows, tables = cu_seqlens_q.tolist(), cu_entries.tolist()
    for i in range(len(MIXED)):
        row, table = slice(rows[i], rows[i + 1]), slice(tables[i], tables[i + 1])
        bounds = (torch.tensor([0, s.stop - s.start], dtype=torch.int32) for s in (row, table))
        cu_rows, cu_tables = (bound.to(DEVICE) for bound in bounds)
        alone = (query[row], cache, out[row], cu_rows, positions[row], entries[table], cu_tables)
        result = PagedCase(alone, case.options, []).run(paged_attention)
        assert torch.equal(result, batched[row])


LAYOUTS = {
    "half": rotary(16),
    "interleaved": rotary(16, interleaved=True),
    "partial": rotary(8),
    "partial-interleaved-from-4": rotary(8, interleaved=True, start=4),
    "trailing": rotary(8, start=8),
    "latent": rotary(8, start=8),
    "latent-interleaved": rotary(8, interleaved=True, start=8),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("delta", [1, -1, 17, -4000, 131000, -131000])
def test_turning_the_query_equals_shifting_the_keys(layout: str, delta: int) -> None:
    """q·(R(delta) k) = (R(-delta) q)·k, against `rope_shift` into fresh blocks."""
    latent = {"latent_dim": 8, "num_kv_heads": 1} if "latent" in layout else {}
    rope = LAYOUTS[layout]
    case = make_case([(29, 12)], block_size=8, deltas=(delta, 0, 2 * delta), rope=rope, **latent)
    query, cache, out, cu_seqlens_q, positions, entries, cu_entries = case.arguments
    shifted = torch.cat((cache, torch.full_like(cache, float("nan"))))
    moved = entries.clone()
    moved[:, 0] += len(cache)
    moved[:, 4] = 0
    for block, _, _, length, entry_delta in entries.tolist():
        source = block * 8 + torch.arange(length, device=DEVICE)
        deltas = torch.full((length,), entry_delta, dtype=torch.int32, device=DEVICE)
        rope_shift(shifted, source, source + len(cache) * 8, deltas, rope)
    plain = PagedCase((query, shifted, out, cu_seqlens_q, positions, moved, cu_entries), {}, [])
    expected = plain.run(paged_attention, **(case.options | {"rope": None}))
    torch.testing.assert_close(case.run(paged_attention), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.report("S42")
@pytest.mark.parametrize("chunk_tokens", [7, 16])
@pytest.mark.parametrize("num_cached", [0, 16])
def test_latent_prefill_in_chunks_equals_one_pass(chunk_tokens: int, num_cached: int) -> None:
    case = make_case([(50, 50)], num_kv_heads=1, head_dim=32, latent_dim=24)
    query, cache, _, _, _, entries, cu_entries = case.arguments
    whole = case.run(paged_attention)
    for start in range(num_cached, 50, chunk_tokens):
        rows = torch.arange(start, min(start + chunk_tokens, 50), device=DEVICE)
        cu_rows = torch.tensor([0, len(rows)], dtype=torch.int32, device=DEVICE)
        out = torch.empty_like(whole[rows])
        arguments = (query[rows], cache, out, cu_rows, rows.int(), entries, cu_entries)
        part = PagedCase(arguments, case.options, []).run(paged_attention)
        torch.testing.assert_close(part, whole[rows], atol=1e-6, rtol=1e-6)


def test_a_row_beyond_the_entries_is_refused() -> None:
    case = make_case([(8, 1)])
    case.arguments[4][0] = 8
    with pytest.raises(AssertionError, match="beyond the entries"):
        case.run(paged_attention)


def test_empty_batch_and_empty_sequence() -> None:
    case = make_case([(9, 0), (5, 5), (3, 0)])
    torch.testing.assert_close(
        case.run(paged_attention).double(), case.expected(), atol=2e-6, rtol=2e-6
    )
    assert make_case([(9, 0)]).run(paged_attention).shape == (0, 4, 16)
