"""Keys cached without their rotation: the op turns queries and keys for their positions."""

from __future__ import annotations

import functools
from typing import Any

import oracle
import pytest
import torch
from paged_case import DEVICE, TOLERANCE, PagedCase, make_case, rotary

from kvtool_kernels import RotaryTable, attention_mass
from kvtool_kernels.reference.paged_attention import paged_attention as reference
from kvtool_kernels.reference.rope_shift import rope_shift
from kvtool_kernels.rotary import Rotary
from kvtool_kernels.triton.paged_attention import paged_attention as triton

pytestmark = pytest.mark.usefixtures("poisoned_empty")

MIXED = [(21, 21), (1, 1), (50, 1), (35, 4)]
DECODE = [(50, 1), (1, 1), (17, 1)]
LATENT = {"num_heads": 3, "num_kv_heads": 1, "head_dim": 40, "latent_dim": 32}
CASES: dict[str, tuple[list[tuple[int, int]], dict[str, Any]]] = {
    "half": (MIXED, {"at_read": rotary(16)}),
    "interleaved": (MIXED, {"at_read": rotary(16, interleaved=True)}),
    "odd-blocks-fragmented": (
        MIXED,
        {"at_read": rotary(80), "head_dim": 80, "block_size": 5, "fragmented": True},
    ),
    "block-1-mqa": (
        DECODE,
        {"at_read": rotary(24), "head_dim": 24, "block_size": 1, "num_kv_heads": 1},
    ),
    "partial-window": (MIXED, {"at_read": rotary(8), "window": 7, "fragmented": True}),
    "partial-interleaved-from-4-chunk": (
        MIXED,
        {"at_read": rotary(8, interleaved=True, start=4), "chunk": 10},
    ),
    "backward-softcap-sinks": (
        MIXED,
        {"at_read": Rotary(-rotary(16).inv_freq), "softcap": 0.7, "sinks": True},
    ),
    "scattered-bf16": (
        [(60, 9), (20, 1)],
        {"at_read": rotary(16), "scattered": True, "fragmented": True, "dtype": torch.bfloat16},
    ),
    "decode-fp16": (DECODE, {"at_read": rotary(16), "dtype": torch.float16}),
    "latent": (MIXED, {**LATENT, "at_read": rotary(8, start=32)}),
    "latent-interleaved-bf16": (
        MIXED,
        {
            **LATENT,
            "at_read": rotary(8, interleaved=True, start=32),
            "block_size": 5,
            "fragmented": True,
            "dtype": torch.bfloat16,
        },
    ),
}


def case_of(name: str, **changes: Any) -> PagedCase:
    sequences, options = CASES[name]
    return make_case(sequences, **options, **changes)


@functools.cache
def output(name: str, op: Any) -> torch.Tensor:
    """Of the case as it is; run once, as Triton's interpreter takes a second for it."""
    return case_of(name).run(op)


@pytest.mark.parametrize("name", CASES)
def test_the_reference_equals_dense_attention(name: str) -> None:
    case = case_of(name)
    rounding = torch.finfo(case.out.dtype).eps / 2
    expected = case.expected()
    error = (case.run(reference).double() - expected).abs()
    assert bool((error <= rounding * expected.abs() * 1.01 + 3e-6).all())


@pytest.mark.parametrize("name", CASES)
def test_triton_equals_the_reference(name: str) -> None:
    expected = output(name, reference)
    tolerance = TOLERANCE[expected.dtype]
    torch.testing.assert_close(output(name, triton), expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("op", [reference, triton])
def test_deltas_mean_nothing(op: Any) -> None:
    moved = case_of("half", deltas=(5, -5, 131_000))
    assert torch.equal(output("half", op), moved.run(op))


@pytest.mark.parametrize(("op", "far"), [(reference, 1), (reference, 131_000), (triton, 131_000)])
@pytest.mark.parametrize("name", ["half", "interleaved", "partial-window", "latent"])
def test_scores_depend_on_distance_only(name: str, far: int, op: Any) -> None:
    """All positions `far` further on: the table's rows from there on."""
    case = case_of(name)
    table: RotaryTable = case.options["at_read"]
    cos, sin = (t[far:].contiguous() for t in RotaryTable.of(table.rope, far + 50)[1:])
    moved = case.run(op, at_read=RotaryTable(table.rope, cos, sin))
    torch.testing.assert_close(moved, output(name, op), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("delta", [1, -4000, 131_000, -131_000])
@pytest.mark.parametrize(
    "name", ["half", "interleaved", "partial-window", "partial-interleaved-from-4-chunk", "latent"]
)
def test_moved_keys_of_both_schemes_agree(name: str, delta: int) -> None:
    """Keys rotated for `position - delta` in entries with that delta, queries rotated by hand."""
    case = case_of(name)
    query, cache, out, cu_seqlens_q, positions, entries, cu_entries = case.arguments
    rope = case.options["at_read"].rope
    rotated, moved = cache.clone(), entries.clone()
    moved[:, 4] = delta
    spare = torch.full_like(cache, float("nan"))
    size = cache.shape[-2]
    both = torch.cat((rotated, spare))
    for block, offset, start, length, _ in entries.tolist():
        source = block * size + offset + torch.arange(length, device=DEVICE)
        homes = (start - delta + torch.arange(length, device=DEVICE)).to(torch.int32)
        rope_shift(both, source, source + len(cache) * size, homes, rope)
    moved[:, 0] += len(cache)
    turned = oracle.rotate(query, positions, rope).float()
    rotate = PagedCase((turned, both, out, cu_seqlens_q, positions, moved, cu_entries), {}, [])
    options = {name: case.options[name] for name in case.options if name != "at_read"}
    expected = rotate.run(reference, **(options | {"rope": rope}))
    torch.testing.assert_close(output(name, reference), expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(output(name, triton), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["half", "scattered-bf16", "latent", "backward-softcap-sinks"])
def test_attention_mass_is_that_of_dense_weights(name: str) -> None:
    _, options = CASES[name]
    case = make_case([(60, 23)], **options)
    query, cache, out, _, positions, entries, _ = case.arguments
    settings = {key: case.options[key] for key in case.options if key != "max_query_len"}
    mass = torch.zeros(28, dtype=torch.float64, device=out.device)
    found = torch.full_like(out, float("nan"))
    attention_mass(query, cache, found, mass, 13, positions, entries, **settings)
    ((key, _),) = case.dense
    one_hot = torch.eye(60, device=key.device)[:, None].expand(-1, key.shape[1], -1)
    names = ("scale", "window", "chunk", "softcap", "sinks")
    scoring = {key: case.options[key] for key in names if key in case.options}
    turned = oracle.rotate(query, positions, case.options["at_read"].rope)
    weights = oracle.attention(turned, key, one_hot, positions, **scoring).sum((0, 1))
    torch.testing.assert_close(mass, weights[13:41], atol=1e-5, rtol=1e-5)
    assert torch.equal(found, case.run(reference)) or found.is_cuda


@pytest.mark.parametrize("op", [reference, triton])
def test_a_cache_holds_rotated_keys_or_others(op: Any) -> None:
    case = case_of("half")
    with pytest.raises(AssertionError, match="with their rotation or without"):
        case.run(op, rope=rotary(16))


def test_a_position_beyond_the_table_is_refused() -> None:
    case = case_of("half")
    with pytest.raises(AssertionError, match="beyond the table"):
        case.run(reference, at_read=RotaryTable.of(rotary(16), 49))


def test_angles_of_the_table_are_reduced_in_float64() -> None:
    """At 131,000 radians; in fp32 the product would be off by 4e-3."""
    table = RotaryTable.of(Rotary(torch.tensor([1.0, 0.7234567890123]).double()), 131_072)
    exact = 131_000 * table.rope.inv_freq
    torch.testing.assert_close(table.cos[131_000].double(), exact.cos(), atol=1e-7, rtol=0)
    torch.testing.assert_close(table.sin[131_000].double(), exact.sin(), atol=1e-7, rtol=0)
