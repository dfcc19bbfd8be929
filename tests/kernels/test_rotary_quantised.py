"""Moves cost quantised keys nothing when the query turns, and add up when keys are rewritten."""

import pytest
import torch
from oracle import attention
from oracle import rotate as exact_rotation
from paged_case import DEVICE, rotary

from benchmarks.cases.moved_keys import MOVES, PATHS, STORAGES, moved_errors
from kvtool_kernels import Rotary, paged_attention

LAYOUTS = {
    "half": rotary(64),
    "interleaved": rotary(64, interleaved=True),
    "partial": rotary(16),
    "mla": rotary(16, start=48),
}
# path -> storage -> relative L2 error of N(0, 1) keys (head_dim 128, theta 500,000): as stored, and
# rewritten at each of 1, 10, 100 moves
FIGURES = {
    "37 each time": {
        "bf16": (1.7e-3, (2.2e-3, 7.6e-3, 4.7e-2)),
        "int8": (6.5e-3, (8.9e-3, 2.6e-2, 0.145)),
        "fp8": (2.6e-2, (3.5e-2, 8.9e-2, 0.55)),
    },
    "up to 2000, either way": {
        "bf16": (1.7e-3, (2.3e-3, 5.5e-3, 1.6e-2)),
        "int8": (6.5e-3, (9.2e-3, 2.1e-2, 6.4e-2)),
        "fp8": (2.6e-2, (3.6e-2, 8.3e-2, 0.26)),
    },
}


def keys(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.report("S18")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_turning_the_query_adds_no_error(path: str, storage: str, layout: str) -> None:
    rope = LAYOUTS[layout]
    cpu = Rotary(rope.inv_freq.cpu(), rope.interleaved, rope.start)
    rows = moved_errors(keys(64, 2, 64), cpu, storage, PATHS[path])
    assert [row.moves for row in rows] == list(MOVES)
    for row in rows:
        assert row.query_side == pytest.approx(row.unmoved, rel=1e-4)
    growth = [row.rewrite / row.unmoved for row in rows]
    assert 1.05 < growth[0] < growth[1] < growth[2]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("storage", STORAGES)
def test_figures(path: str, storage: str) -> None:
    inv_freq = 500_000.0 ** -(torch.arange(0, 128, 2, dtype=torch.float64) / 128)
    rows = moved_errors(keys(512, 128), Rotary(inv_freq), storage, PATHS[path])
    unmoved, rewritten = FIGURES[path][storage]
    assert rows[0].unmoved == pytest.approx(unmoved, rel=0.1)
    assert [row.rewrite for row in rows] == pytest.approx(rewritten, rel=0.15)


@pytest.mark.parametrize("storage", ["int8", "fp8"])
@pytest.mark.parametrize("delta", [1, -700, 131_000])
def test_attention_over_moved_quantised_keys(storage: str, delta: int) -> None:
    """A moved entry gives what attention over the turned, never requantised keys gives."""
    rope, length, dim = LAYOUTS["half"], 12, 64
    stored, value = STORAGES[storage](keys(length, 1, dim)), keys(length, 1, dim)
    query = keys(2, 1, dim)
    cache = torch.stack((stored.transpose(0, 1), value.transpose(0, 1)))[None].to(DEVICE)
    integers = {"dtype": torch.int32, "device": DEVICE}
    positions = torch.tensor([length - 2, length - 1], **integers)
    out = torch.empty(2, 1, dim, device=DEVICE)
    paged_attention(
        query.to(DEVICE),
        cache,
        out,
        torch.tensor([0, 2], **integers),
        positions,
        torch.tensor([[0, 0, 0, length, delta]], **integers),
        torch.tensor([0, 1], **integers),
        scale=dim**-0.5,
        max_query_len=2,
        rope=rope,
    )
    turned = exact_rotation(stored.to(DEVICE), torch.full((length,), delta, device=DEVICE), rope)
    exact = attention(query.to(DEVICE), turned, value.to(DEVICE), positions, scale=dim**-0.5)
    torch.testing.assert_close(out.double(), exact, atol=1e-5, rtol=1e-5)
