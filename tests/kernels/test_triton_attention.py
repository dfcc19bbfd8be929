"""The Triton attention kernel against the reference."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from paged_case import TOLERANCE, make_case, rotary

from kvtool_kernels.reference.paged_attention import paged_attention as reference
from kvtool_kernels.triton import tiles
from kvtool_kernels.triton.paged_attention import paged_attention

pytestmark = pytest.mark.usefixtures("poisoned_empty")

MIXED = [(21, 21), (1, 1), (50, 1), (35, 4)]
DECODE = [(50, 1), (1, 1), (17, 1)]

CASES: dict[str, tuple[list[tuple[int, int]], dict[str, Any]]] = {
    "mixed-fp32": (MIXED, {}),
    "mixed-bf16": (MIXED, {"dtype": torch.bfloat16}),
    "prefill-37-mqa-80": ([(37, 37)], {"num_heads": 5, "num_kv_heads": 1, "head_dim": 80}),
    "decode-mha-24-fp16": (
        DECODE,
        {"num_heads": 3, "num_kv_heads": 3, "head_dim": 24, "dtype": torch.float16},
    ),
    "decode-96-block-1": (DECODE, {"head_dim": 96, "block_size": 1}),
    "mixed-block-5-fragmented": (MIXED, {"block_size": 5, "fragmented": True}),
    "block-64": ([(130, 3), (64, 1)], {"block_size": 64}),
    "more-heads-than-rows": ([(20, 2), (20, 1)], {"num_heads": 35, "num_kv_heads": 1}),
    "window": (MIXED, {"window": 7}),
    "window-decode-fragmented": (DECODE, {"window": 9, "fragmented": True, "block_size": 5}),
    "chunk": (MIXED, {"chunk": 10}),
    "window-chunk-bf16": (MIXED, {"window": 12, "chunk": 16, "dtype": torch.bfloat16}),
    "softcap-sinks": (MIXED, {"softcap": 0.7, "sinks": True}),
    "sinks-window-decode": (DECODE, {"sinks": True, "window": 3}),
    "rope-without-deltas": (MIXED, {"rope": rotary(16)}),
    "deltas": (MIXED, {"rope": rotary(16), "deltas": (0, 3, 3, -131000)}),
    "deltas-interleaved-bf16": (
        MIXED,
        {
            "rope": rotary(16, interleaved=True),
            "deltas": (1000, 0, -7),
            "dtype": torch.bfloat16,
        },
    ),
    "deltas-partial-window-fragmented": (
        [(60, 12), (44, 1)],
        {
            "rope": rotary(12, start=4),
            "deltas": (5, -5, 0),
            "window": 30,
            "fragmented": True,
            "block_size": 5,
        },
    ),
    "nope-ignores-deltas": (DECODE, {"deltas": (5, -5)}),
    "scattered": ([(60, 9), (20, 1)], {"scattered": True, "fragmented": True}),
    "latent": (
        MIXED,
        {"num_heads": 6, "num_kv_heads": 1, "head_dim": 32, "latent_dim": 24},
    ),
    "latent-deltas-bf16": (
        MIXED,
        {
            "num_heads": 3,
            "num_kv_heads": 1,
            "head_dim": 40,
            "latent_dim": 32,
            "rope": rotary(8, interleaved=True, start=32),
            "deltas": (0, -11, 4000),
            "block_size": 5,
            "fragmented": True,
            "dtype": torch.bfloat16,
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_the_reference(name: str) -> None:
    sequences, options = CASES[name]
    case = make_case(sequences, **options)
    tolerance = TOLERANCE[case.out.dtype]
    torch.testing.assert_close(
        case.run(paged_attention), case.run(reference), atol=tolerance, rtol=tolerance
    )


@pytest.mark.parametrize("num_splits", [1, 3, 32])
def test_any_number_of_splits(num_splits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also more splits than there are keys: an empty split adds nothing."""
    monkeypatch.setattr(
        "kvtool_kernels.triton.paged_attention.num_splits", lambda device, programs: num_splits
    )
    case = make_case([(70, 1), (3, 1)], num_heads=2, num_kv_heads=1, sinks=True)
    torch.testing.assert_close(case.run(paged_attention), case.run(reference), atol=1e-5, rtol=1e-5)


def test_empty_input() -> None:
    assert make_case([(9, 0)]).run(paged_attention).shape == (0, 4, 16)
    case = make_case([(9, 0), (5, 5), (3, 0), (20, 1)])
    torch.testing.assert_close(case.run(paged_attention), case.run(reference), atol=1e-5, rtol=1e-5)


def test_launcher_refuses_what_it_would_have_to_copy() -> None:
    case = make_case([(9, 2)])
    query, cache, out, *tables = case.arguments
    with pytest.raises(AssertionError):
        paged_attention(query.double(), cache, out, *tables, **case.options)
    with pytest.raises(AssertionError):
        paged_attention(query[..., ::2], cache[..., ::2], out[..., ::2], *tables, **case.options)
    with pytest.raises(AssertionError):
        paged_attention(query, cache, out, tables[0].long(), *tables[1:], **case.options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("decode", [True, False])
def test_every_head_dim_has_tiles(dtype: torch.dtype, decode: bool) -> None:
    for head_dim in (16, 64, 80, 128, 256, 576):
        chosen = tiles.select_tiles(dtype, head_dim, decode=decode, turn=True)
        assert chosen.block_m >= 16 and chosen.block_n >= 16
