"""Attention mass against dense weights in float64; the output is that of paged attention."""

from __future__ import annotations

from typing import Any

import oracle
import pytest
import torch
from paged_case import PagedCase, make_case, rotary

from kvtool_kernels import attention_mass
from kvtool_kernels.reference import paged_attention as module
from kvtool_kernels.reference.paged_attention import paged_attention

LENGTH, ROWS = 60, 23
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "mqa": {"num_heads": 5, "num_kv_heads": 1},
    "scattered": {"scattered": True, "fragmented": True},
    "window": {"window": 7, "scattered": True},
    "chunk": {"chunk": 10, "block_size": 5},
    "softcap-sinks": {"softcap": 0.5, "sinks": True, "window": 20},
    "deltas": {"rope": rotary(16), "deltas": (0, 3, -3, 500), "fragmented": True},
    "bfloat16": {"dtype": torch.bfloat16, "rope": rotary(16), "deltas": (4, -9)},
    "latent": {
        "num_kv_heads": 1,
        "head_dim": 32,
        "latent_dim": 24,
        "rope": rotary(8, interleaved=True, start=24),
        "deltas": (0, -11, 40),
        "scattered": True,
    },
}


def run(case: PagedCase, first: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
    query, cache, out, _, positions, entries, _ = case.arguments
    options = {name: case.options[name] for name in case.options if name != "max_query_len"}
    mass = torch.full((stop - first,), 2.0, dtype=torch.float64, device=out.device)
    out = torch.full_like(out, float("nan"))
    attention_mass(query, cache, out, mass, first, positions, entries, **options)
    return out, mass - 2  # it adds


def weights(case: PagedCase) -> torch.Tensor:
    """[rows, num_heads, num_tokens]: attention over one-hot values."""
    query, positions = case.arguments[0], case.arguments[4]
    ((key, _),) = case.dense
    values = torch.eye(LENGTH, device=key.device)[:, None].expand(-1, key.shape[1], -1)
    names = ("scale", "window", "chunk", "softcap", "sinks")
    options = {name: case.options[name] for name in names if name in case.options}
    return oracle.attention(query, key, values, positions, **options)


@pytest.mark.parametrize(("first", "stop"), [(0, LENGTH), (13, 41), (59, 60)])
@pytest.mark.parametrize("name", CASES)
def test_equals_dense_weights(name: str, first: int, stop: int) -> None:
    case = make_case([(LENGTH, ROWS)], **CASES[name])
    out, mass = run(case, first, stop)
    expected = weights(case).sum((0, 1))
    torch.testing.assert_close(mass, expected[first:stop], atol=1e-5, rtol=1e-5)
    assert torch.equal(out, case.run(paged_attention)) or out.is_cuda


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case([(LENGTH, ROWS)], window=30, rope=rotary(16), deltas=(0, 7), fragmented=True)
    _, whole = run(case, 5, 50)
    monkeypatch.setattr(module, "ROW_BLOCK", 3)
    torch.testing.assert_close(run(case, 5, 50)[1], whole, atol=1e-6, rtol=1e-6)
    monkeypatch.setattr(module, "MAX_SCORES", 4 * LENGTH)
    torch.testing.assert_close(run(case, 5, 50)[1], whole, atol=1e-6, rtol=1e-6)
