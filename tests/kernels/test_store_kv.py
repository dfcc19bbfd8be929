from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from paged_case import DEVICE

from kvtool_kernels.reference.store_kv import store_kv as reference
from kvtool_kernels.triton.store_kv import store_kv as triton_op

OPS = [pytest.param(reference, id="reference"), pytest.param(triton_op, id="triton")]
Op = Callable[..., None]


def expected_cache(
    cache: torch.Tensor, key: torch.Tensor, value: torch.Tensor, slots: list[int]
) -> torch.Tensor:
    cache = cache.clone()
    block_size = cache.shape[-2]
    for token, slot in enumerate(slots):
        if slot >= 0:
            cache[slot // block_size, 0, :, slot % block_size] = key[token].to(cache.dtype)
            cache[slot // block_size, 1, :, slot % block_size] = value[token].to(cache.dtype)
    return cache


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(
    ("num_tokens", "num_kv_heads", "head_dim", "block_size", "dtype"),
    [
        pytest.param(1, 1, 64, 16, torch.float32, id="one"),
        pytest.param(63, 3, 80, 5, torch.bfloat16, id="63-80-bf16"),
        pytest.param(17, 40, 96, 1, torch.float16, id="many-heads-fp16"),
        pytest.param(0, 2, 16, 16, torch.float32, id="empty"),
    ],
)
def test_rows_land_in_their_slots_and_nowhere_else(
    op: Op, num_tokens: int, num_kv_heads: int, head_dim: int, block_size: int, dtype: torch.dtype
) -> None:
    num_blocks = -(-num_tokens // block_size) + 2
    pool = torch.randn(num_blocks, 3, 2, num_kv_heads, block_size, head_dim).to(dtype).to(DEVICE)
    before = pool.clone()
    slots = torch.randperm(num_blocks * block_size)[:num_tokens].tolist()
    slots = [-1 if token % 5 == 4 else slot for token, slot in enumerate(slots)]
    # rows as a model has them: a transposed view of [1, heads, tokens, dim]
    key, value = torch.randn(2, num_kv_heads, num_tokens, head_dim, device=DEVICE).to(dtype)
    key, value = key.transpose(0, 1), value.transpose(0, 1)
    op(key, value, pool[:, 1], torch.tensor(slots, dtype=torch.int64, device=DEVICE))
    before[:, 1] = expected_cache(before[:, 1], key, value, slots)
    assert torch.equal(pool, before)


@pytest.mark.parametrize("op", OPS)
def test_latent_rows(op: Op) -> None:
    pool = torch.zeros(4, 2, 5, 24, device=DEVICE)
    rows = torch.randn(3, 24, device=DEVICE)
    op(rows, None, pool[:, 1], torch.tensor([7, -1, 19], device=DEVICE))
    before = torch.zeros_like(pool)
    before[1, 1, 2], before[3, 1, 4] = rows[0], rows[2]
    assert torch.equal(pool, before)


@pytest.mark.parametrize("op", OPS)
def test_latent_has_no_value(op: Op) -> None:
    rows = torch.zeros(1, 8, device=DEVICE)
    with pytest.raises((AssertionError, ValueError)):
        op(rows, rows, torch.zeros(2, 4, 8, device=DEVICE), torch.tensor([0], device=DEVICE))
