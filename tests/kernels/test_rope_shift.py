from __future__ import annotations

from collections.abc import Callable

import oracle
import pytest
import torch
from paged_case import DEVICE, TOLERANCE, rotary

from kvtool_kernels import Rotary
from kvtool_kernels.reference.rope_shift import rope_shift as reference
from kvtool_kernels.reference.store_kv import store_kv
from kvtool_kernels.triton.rope_shift import rope_shift as triton_op

Op = Callable[..., None]
OPS = [pytest.param(reference, id="reference"), pytest.param(triton_op, id="triton")]
LAYOUTS = {
    "half": rotary(24),
    "interleaved": rotary(24, interleaved=True),
    "partial": rotary(8),
    "from-4": rotary(12, interleaved=True, start=4),
}


def shift(op: Op, cache: torch.Tensor, source: int, target: int, deltas: list[int]) -> None:
    """Move len(deltas) slots from slot `source` on to slot `target` on."""
    index = torch.arange(len(deltas), device=DEVICE)
    moves = torch.tensor(deltas, dtype=torch.int32, device=DEVICE)
    op(cache, source + index, target + index, moves, cache_rope(cache))


def cache_rope(cache: torch.Tensor) -> Rotary:
    return rotary(8, start=16) if cache.dim() == 3 else rotary(cache.shape[-1])


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(6, 2, 3, 5, 80), (6, 5, 24)], ids=["kv", "latent"])
def test_shift_zero_is_an_exact_copy(op: Op, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    cache = torch.randn(shape).to(dtype).to(DEVICE)
    expected = cache.clone()
    for i in range(11):  # slots 2..12 to 15..25
        source, target = 2 + i, 15 + i
        expected[target // 5, ..., target % 5, :] = cache[source // 5, ..., source % 5, :]
    shift(op, cache, 2, 15, [0] * 11)
    assert torch.equal(cache, expected)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_equals_the_float64_rotation(op: Op, layout: str, dtype: torch.dtype) -> None:
    rope = LAYOUTS[layout]
    cache = torch.randn(8, 2, 3, 5, 24).to(dtype).to(DEVICE)
    before = cache.clone()
    deltas = torch.tensor([1, -1, 17, -4000, 131000, -131000, 0], dtype=torch.int32, device=DEVICE)
    source = torch.tensor([3, 0, 19, 7, 4, 11, 12], device=DEVICE)
    target = torch.tensor([39, 20, 31, 22, 28, 27, 25], device=DEVICE)
    op(cache, source, target, deltas, rope)
    rows = before[source // 5, :, :, source % 5]  # [7, 2, 3, 24]
    before[target // 5, 1, :, target % 5] = rows[:, 1]  # V: copied as it is
    before[target // 5, 0, :, target % 5] = oracle.rotate(rows[:, 0], deltas, rope).to(dtype)
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(cache, before, atol=tolerance, rtol=tolerance)
    assert torch.equal(cache[target // 5, 1, :, target % 5], rows[:, 1])


@pytest.mark.parametrize("op", OPS)
def test_shifts_compose(op: Op) -> None:
    cache = torch.randn(9, 2, 2, 4, 32, device=DEVICE)
    shift(op, cache, 0, 8, [300, -70])
    shift(op, cache, 8, 16, [-260, 75])
    shift(op, cache, 0, 24, [40, 5])
    torch.testing.assert_close(cache[4, :, :, :2], cache[6, :, :, :2], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("delta", [9, -40, 131000])
def test_store_then_shift_equals_store_at_the_new_position(op: Op, layout: str, delta: int) -> None:
    rope = LAYOUTS[layout]
    raw, value = torch.randn(2, 6, 3, 24, device=DEVICE)
    positions = torch.arange(50, 56, device=DEVICE)
    cache = torch.zeros(6, 2, 3, 4, 24, device=DEVICE)
    slots = torch.arange(6, device=DEVICE)
    store_kv(oracle.rotate(raw, positions, rope).float(), value, cache, slots)
    moved = torch.full((6,), delta, dtype=torch.int32, device=DEVICE)
    op(cache, slots, slots + 8, moved, rope)
    store_kv(oracle.rotate(raw, positions + delta, rope).float(), value, cache, slots + 16)
    torch.testing.assert_close(cache[2:4], cache[4:6], atol=2e-6, rtol=2e-6)


@pytest.mark.parametrize("op", OPS)
def test_latent_values_stay(op: Op) -> None:
    cache = torch.randn(6, 5, 24, device=DEVICE)
    before = cache.clone()
    shift(op, cache, 0, 10, [123, -7])
    assert torch.equal(cache[2, :2, :16], before[0, :2, :16])
    turned = oracle.rotate(before[0, :2, None], torch.tensor([123, -7]).to(DEVICE), LATENT)
    torch.testing.assert_close(cache[2, :2].double(), turned[:, 0], atol=1e-6, rtol=1e-6)


LATENT = rotary(8, start=16)


@pytest.mark.parametrize("op", OPS)
def test_nothing_to_shift(op: Op) -> None:
    cache = torch.randn(2, 2, 1, 4, 16, device=DEVICE)
    before = cache.clone()
    shift(op, cache, 0, 4, [])
    assert torch.equal(cache, before)
