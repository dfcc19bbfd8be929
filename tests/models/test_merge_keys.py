"""Running means of KV in a pool, against the mean of copies turned in float64."""

from __future__ import annotations

from functools import cache

import pytest
import tiny
import torch

from kvtool.models.hf import PagedModel
from kvtool.models.moving import merge_keys
from kvtool.models.shift_check import prepare_shift
from kvtool_kernels import Rotary

LAYOUTS = (
    "llama",
    "cohere",  # interleaved
    "gpt_neox",  # a quarter of the head
    "smollm3",  # a layer without rotation
    "gemma3_text",  # two layer groups
    "deepseek_v3",  # latent
    "deepseek_v2",  # latent, interleaved
)
BLOCK_SIZE = 4
# relative L2: one rounding of fp32; of bf16 one a copy, each at most 2^-9 of a value
TOLERANCE = {torch.float32: 1e-6, torch.bfloat16: 4e-3}
DELTAS = (0, -17, 120, 5)


@cache
def paged(name: str, dtype: torch.dtype) -> PagedModel:
    model = PagedModel(tiny.build(name, dtype=dtype))
    prepare_shift(model)
    return model


def filled(model: PagedModel) -> list[torch.Tensor]:
    model.allocate_pools(12, BLOCK_SIZE)
    torch.manual_seed(0)
    for pool in model.pools:
        pool.copy_(torch.randn(pool.shape))
    return [pool.clone() for pool in model.pools]


def merges(num_copies: int, target: int) -> torch.Tensor:
    """Copies of 5 tokens from slot 0, 6, 12, ... on, into slot `target` on."""
    rows = [
        (6 * copy + i, target + i, DELTAS[copy], copy + 1)
        for copy in range(num_copies)
        for i in range(5)
    ]
    return torch.tensor(rows)


def turned(keys: torch.Tensor, delta: int, rope: Rotary | None) -> torch.Tensor:
    """float64 [..., head_dim], as complex numbers."""
    if rope is None:
        return keys
    keys = keys.clone()
    part = keys[..., rope.start : rope.end]
    pairs = part.unflatten(-1, (-1, 2) if rope.interleaved else (2, -1))
    dim = -1 if rope.interleaved else -2
    numbers = torch.complex(*pairs.unbind(dim)) * torch.exp(1j * delta * rope.inv_freq)
    part.copy_(torch.stack((numbers.real, numbers.imag), dim).flatten(-2))
    return keys


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("num_copies", [2, 4])
@pytest.mark.parametrize("name", LAYOUTS)
def test_is_the_mean_of_turned_copies(name: str, num_copies: int, dtype: torch.dtype) -> None:
    model = paged(name, dtype)
    before = filled(model)
    rows = merges(num_copies, 26)
    for group in range(len(model.groups)):
        merge_keys(model, group, rows)
    for group, (spec, pool) in enumerate(zip(model.groups, model.pools)):
        assert pool.dtype == dtype
        for row, layer in enumerate(spec.layers):
            rope = model.paged_layers[layer].rope
            slots = _slots(before[group][:, row]).double()
            copies = [slots[6 * copy : 6 * copy + 5] for copy in range(num_copies)]
            for copy, delta in zip(copies, DELTAS):
                keys = copy if spec.kind == "latent" else copy[:, 0]
                keys.copy_(turned(keys, delta, rope))
            expected = torch.stack(copies).mean(0)
            actual = _slots(pool[:, row])[26:31].double()
            error = (actual - expected).norm() / expected.norm()
            assert error <= TOLERANCE[dtype], (name, layer)


def _slots(kv_cache: torch.Tensor) -> torch.Tensor:
    return kv_cache.movedim(-2, 1).flatten(0, 1)


def test_nothing_else_is_touched_and_the_first_copy_is_exact() -> None:
    model = paged("llama", torch.bfloat16)
    (before,) = filled(model)
    merge_keys(model, 0, merges(1, 26))
    changed = _slots(model.pools[0][:, 0])
    expected = _slots(before[:, 0].clone()).clone()
    expected[26:31] = expected[0:5]
    assert torch.equal(changed, expected)


def test_numbers_follow_each_other_within_one_call_or_over_several() -> None:
    model = paged("llama", torch.bfloat16)
    filled(model)
    rows = merges(4, 26)
    merge_keys(model, 0, rows)
    once = model.pools[0].clone()
    filled(model)
    for part in rows.split(3):
        merge_keys(model, 0, part)
    assert torch.equal(model.pools[0], once)
