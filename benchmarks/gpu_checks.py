"""Every Triton kernel against its PyTorch reference on one device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from kvtool_kernels import Rotary
from kvtool_kernels.dispatch import load

BLOCK_SIZE = 16
TOLERANCE = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 2e-2}
Row = dict[str, Any]


class Failed(Exception):
    """A kernel disagrees with its reference."""


def rotary(rotary_dim: int, device: str, start: int = 0) -> Rotary:
    exponents = torch.arange(0, rotary_dim, 2, dtype=torch.float64, device=device) / rotary_dim
    return Rotary(10000.0**-exponents, False, start)


def make_attention(
    sequences: list[tuple[int, int]],
    *,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    dtype: torch.dtype,
    device: str,
    delta: int = 0,
    latent_dim: int | None = None,
    turn: bool = False,
    **options: Any,
) -> tuple[tuple[torch.Tensor, ...], dict[str, Any]]:
    """Arguments of `paged_attention`: (num_tokens, num_rows) sequences over shuffled blocks."""
    counts = torch.tensor([-(-tokens // BLOCK_SIZE) for tokens, _ in sequences])
    num_blocks = int(counts.sum())
    planes = () if latent_dim else (2, num_kv_heads)
    cache = torch.randn(num_blocks, *planes, BLOCK_SIZE, head_dim, device=device).to(dtype)
    starts = torch.cat([torch.arange(int(count)) * BLOCK_SIZE for count in counts])
    ends = torch.tensor([tokens for tokens, _ in sequences]).repeat_interleave(counts)
    entries = torch.zeros(num_blocks, 5, dtype=torch.int32)
    entries[:, 0] = torch.randperm(num_blocks)
    entries[:, 2] = starts
    entries[:, 3] = (ends - starts).clamp(max=BLOCK_SIZE)
    entries[:, 4] = delta
    positions = torch.cat([torch.arange(tokens - n, tokens) for tokens, n in sequences])

    def cumulated(values: list[int]) -> torch.Tensor:
        return torch.tensor([0, *values]).cumsum(0).int().to(device)

    query = torch.randn(len(positions), num_heads, head_dim, device=device).to(dtype)
    out = torch.empty(len(positions), num_heads, latent_dim or head_dim, dtype=dtype, device=device)
    if turn:
        start = latent_dim or 0
        options["rope"] = rotary(head_dim - start, device, start)
    options |= {"scale": head_dim**-0.5, "max_query_len": max(n for _, n in sequences)}
    arguments = (
        query,
        cache,
        out,
        cumulated([n for _, n in sequences]),
        positions.int().to(device),
        entries.to(device),
        cumulated(counts.tolist()),
    )
    return arguments, options | {"latent_dim": latent_dim}


def compare(name: str, result: torch.Tensor, expected: torch.Tensor) -> Row:
    error = float((result.double() - expected.double()).abs().max())
    row = {"check": name, "dtype": str(result.dtype)[6:], "max_error": error}
    print(f"{'check':8}{name:40}{row['dtype']:>10}{error:12.2e}", flush=True)
    tolerance = TOLERANCE[result.dtype]
    if not torch.allclose(result.double(), expected.double(), atol=tolerance, rtol=tolerance):
        raise Failed(f"{name} ({row['dtype']}): error {error:.2e}, allowed {tolerance:.0e}")
    return row


def check_attention(device: str) -> Iterator[Row]:
    mixed = [(130, 130), (1, 1), (300, 1), (90, 17)]
    plain = {"num_heads": 8, "num_kv_heads": 2, "head_dim": 64}
    latent = {"num_heads": 16, "num_kv_heads": 1, "head_dim": 576, "latent_dim": 512}
    cases: dict[str, Row] = {
        "head_dim 64": plain,
        "head_dim 80": plain | {"head_dim": 80},
        "head_dim 128, window": plain | {"head_dim": 128, "window": 50},
        "head_dim 256, softcap": plain | {"head_dim": 256, "softcap": 30.0},
        "chunk, sinks": plain | {"chunk": 64, "sinks": torch.randn(8, device=device)},
        "delta 0": plain | {"turn": True},
        "delta 70000": plain | {"turn": True, "delta": 70000},
        "MLA": latent,
        "MLA, delta -300": latent | {"turn": True, "delta": -300},
    }
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for name, options in cases.items():
            arguments, keywords = make_attention(mixed, dtype=dtype, device=device, **options)
            results = []
            for implementation in ("triton", "reference"):
                arguments[2].fill_(float("nan"))
                load("paged_attention", implementation)(*arguments, **keywords)
                results.append(arguments[2].clone())
            yield compare(f"attention {name}", *results)


def check_cache_ops(device: str) -> Iterator[Row]:
    for dtype in (torch.float32, torch.bfloat16):
        for shape in ((40, 3, 2, 5, BLOCK_SIZE, 80), (40, 3, BLOCK_SIZE, 576)):
            pool = torch.randn(shape, device=device).to(dtype)
            results = [
                run_cache_ops(pool.clone(), name, device) for name in ("triton", "reference")
            ]
            kind = "kv" if len(shape) == 6 else "latent"
            yield compare(f"store, shift, copy ({kind})", *results)


def run_cache_ops(pool: torch.Tensor, implementation: str, device: str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    latent = pool.dim() == 4
    head_dim, num_rows = pool.shape[-1], 63
    width = (head_dim,) if latent else (pool.shape[3], head_dim)
    key = torch.randn(num_rows, *width, generator=generator).to(pool.dtype).to(device)
    slots = torch.randperm(20 * BLOCK_SIZE, generator=generator)[:num_rows].to(device)
    slots[::7] = -1
    load("store_kv", implementation)(key, None if latent else key + 1, pool[:, 1], slots)
    source = torch.arange(num_rows, device=device)
    deltas = torch.randint(-131000, 131000, (num_rows,), generator=generator).int().to(device)
    rope = rotary(64, device, head_dim - 64)
    load("rope_shift", implementation)(pool[:, 1], source, source + 20 * BLOCK_SIZE, deltas, rope)
    copies = torch.tensor([[0, 30, 5], [1, 31, BLOCK_SIZE]], dtype=torch.int32, device=device)
    load("copy_blocks", implementation)(pool, copies)
    return pool
