from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from paged_case import DEVICE

from kvtool_kernels.reference.copy_blocks import copy_blocks as reference
from kvtool_kernels.triton.copy_blocks import copy_blocks as triton_op

OPS = [pytest.param(reference, id="reference"), pytest.param(triton_op, id="triton")]
SHAPES = [
    pytest.param((2, 2, 3, 16, 80), id="kv"),
    pytest.param((1, 2, 1, 1, 24), id="block-1"),
    pytest.param((3, 64, 40), id="latent"),
]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.report("S34")
def test_partial_copies_touch_only_their_slots(
    op: Callable[..., None], shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    """Source slots, the rest of the target and every other block are canaries."""
    pool = torch.randn(8, *shape).to(dtype).to(DEVICE)
    block_size = shape[-2]
    copies = [(5, 1, min(33, block_size)), (5, 7, block_size), (2, 0, 1), (3, 6, 0)]
    expected = pool.clone()
    for source, target, num_slots in copies:
        expected[target, ..., :num_slots, :] = pool[source, ..., :num_slots, :]
    op(pool, torch.tensor(copies, dtype=torch.int32, device=DEVICE))
    assert torch.equal(pool, expected)


@pytest.mark.parametrize("op", OPS)
def test_no_copies(op: Callable[..., None]) -> None:
    pool = torch.randn(2, 1, 4, 8, device=DEVICE)
    before = pool.clone()
    op(pool, torch.empty(0, 3, dtype=torch.int32, device=DEVICE))
    assert torch.equal(pool, before)
