"""Random paged attention problems: shuffled blocks, NaN in every slot nobody owns."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import oracle
import torch

from kvtool_kernels import Rotary, RotaryTable

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

# dtype -> absolute and relative tolerance of an output of order 1
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def rotary(rotary_dim: int, *, interleaved: bool = False, start: int = 0) -> Rotary:
    exponents = torch.arange(0, rotary_dim, 2, dtype=torch.float64, device=DEVICE) / rotary_dim
    return Rotary(10000.0**-exponents, interleaved, start)


@dataclass
class PagedCase:
    """Arguments of `paged_attention`, and what they mean as dense tensors."""

    arguments: tuple[torch.Tensor, ...]  # query, kv_cache, out, cu_seqlens_q, positions, …
    options: dict[str, Any]
    dense: list[tuple[torch.Tensor, torch.Tensor]]  # K and V of each sequence, K at its position

    @property
    def out(self) -> torch.Tensor:
        return self.arguments[2]

    def run(self, op: Any, **changes: Any) -> torch.Tensor:
        """`op`'s output, written over NaN."""
        out = torch.full_like(self.out, float("nan"))
        arguments = (*self.arguments[:2], out, *self.arguments[3:])
        op(*arguments, **(self.options | changes))
        return out

    def expected(self) -> torch.Tensor:
        """The same by dense attention in float64."""
        query, _, _, cu_seqlens_q, positions, _, _ = self.arguments
        names = ("scale", "window", "chunk", "softcap", "sinks")
        options = {name: self.options[name] for name in names if name in self.options}
        if (at_read := self.options.get("at_read")) is not None:
            query = oracle.rotate(query, positions, at_read.rope)
        bounds = cu_seqlens_q.tolist()
        parts = [
            oracle.attention(query[start:end], key, value, positions[start:end], **options)
            for start, end, (key, value) in zip(bounds, bounds[1:], self.dense)
        ]
        return torch.cat(parts)


def tile(num_tokens: int, block_size: int, deltas: list[int], rng: random.Random | None) -> Any:
    """(offset, start, length, delta) rows that tile [0, num_tokens): ordinary ones, or with rng
    of any offset and length; deltas go round."""
    rows, start = [], 0
    while start < num_tokens:
        offset = rng.randrange(block_size) if rng else 0
        length = min(block_size - offset, num_tokens - start)
        length = rng.randint(1, length) if rng else length
        rows.append((offset, start, length, deltas[len(rows) % len(deltas)]))
        start += length
    return rows


def make_case(
    sequences: list[tuple[int, int]],
    *,
    num_heads: int = 4,
    num_kv_heads: int = 2,
    head_dim: int = 16,
    block_size: int = 16,
    dtype: torch.dtype = torch.float32,
    deltas: tuple[int, ...] = (0,),
    fragmented: bool = False,
    sinks: bool = False,
    latent_dim: int | None = None,
    rope: Rotary | None = None,
    at_read: Rotary | None = None,
    scattered: bool = False,
    seed: int = 0,
    **options: Any,
) -> PagedCase:
    """sequences: (num_tokens, num_query_rows) each; the rows are the last ones, or scattered.
    at_read: queries and keys of the case are not rotated yet."""
    generator = torch.Generator().manual_seed(seed)
    rng = random.Random(seed)
    tables = [tile(n, block_size, list(deltas), rng if fragmented else None) for n, _ in sequences]
    num_blocks = sum(map(len, tables)) + 3
    ids = list(range(num_blocks))
    rng.shuffle(ids)
    planes = (2, num_kv_heads) if latent_dim is None else ()
    pool = torch.full((num_blocks, 2, *planes, block_size, head_dim), float("nan"), dtype=dtype)
    cache = pool[:, 1]  # one layer: a strided view

    entries, dense, positions = [], [], []
    for (num_tokens, num_rows), table in zip(sequences, tables):
        keys, values = [], []
        for offset, start, length, delta in table:
            block = ids.pop()
            shape = (length, num_kv_heads if latent_dim is None else 1, head_dim)
            key = torch.randn(shape, generator=generator).to(dtype)
            value = torch.randn(shape, generator=generator).to(dtype)
            slots = slice(offset, offset + length)
            if latent_dim is None:
                cache[block, 0, :, slots] = key.transpose(0, 1)
                cache[block, 1, :, slots] = value.transpose(0, 1)
            else:
                cache[block, slots], value = key[:, 0], key[..., :latent_dim]
            key = key.to(DEVICE)
            if rope is not None:
                key = oracle.rotate(key, torch.full((length,), delta, device=DEVICE), rope)
            if at_read is not None:
                key = oracle.rotate(key, start + torch.arange(length, device=DEVICE), at_read)
            keys.append(key)
            values.append(value.to(DEVICE))
            entries.append((block, offset, start, length, delta))
        dense.append((torch.cat(keys), torch.cat(values)))
        rows = sorted(rng.sample(range(num_tokens), num_rows)) if scattered else None
        positions += rows or range(num_tokens - num_rows, num_tokens)

    def cumulated(counts: list[int]) -> torch.Tensor:
        return torch.tensor([0, *counts]).cumsum(0).to(torch.int32).to(DEVICE)

    query = torch.randn(len(positions), num_heads, head_dim, generator=generator).to(dtype)
    out = torch.empty(len(positions), num_heads, latent_dim or head_dim, dtype=dtype)
    options |= {"latent_dim": latent_dim, "rope": rope}
    if at_read is not None:
        longest = max(num_tokens for num_tokens, _ in sequences)
        options["at_read"] = RotaryTable.of(at_read, longest)
    options |= {"scale": head_dim**-0.5, "max_query_len": max(rows for _, rows in sequences)}
    if sinks:
        options["sinks"] = torch.randn(num_heads, generator=generator).to(DEVICE)
    arguments = (
        query.to(DEVICE),
        pool.to(DEVICE)[:, 1],
        out.to(DEVICE),
        cumulated([rows for _, rows in sequences]),
        torch.tensor(positions, dtype=torch.int32, device=DEVICE),
        torch.tensor(entries, dtype=torch.int32, device=DEVICE),
        cumulated([len(table) for table in tables]),
    )
    return PagedCase(arguments, options, dense)
