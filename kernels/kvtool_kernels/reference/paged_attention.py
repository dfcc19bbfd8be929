"""Attention of packed query rows over paged KV, one sequence after another.

A sequence is gathered once for all its rows; rows are then taken in blocks, each against the
range of positions its rows can see, so the score matrix stays bounded and nothing hidden from
the whole block is computed. A row never depends on the other sequences of the batch.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from kvtool_kernels.reference.gather import Gathered, gather
from kvtool_kernels.reference.turn_at_read import turn_keys, turn_rows
from kvtool_kernels.rotary import Rotary, RotaryTable, rotate, unit_rotation

ROW_BLOCK = 64  # query rows at a time, fewer where
MAX_SCORES = 1 << 25  # rows * num_heads * keys would exceed this (128 MB of fp32)


class Visibility(NamedTuple):
    """Query q sees key k when k <= q, k > q - window and k // chunk == q // chunk."""

    window: int | None
    chunk: int | None

    def keys_of(self, queries: torch.Tensor) -> tuple[int, int]:
        """The range [start, end) outside of which none of the query positions sees a key."""
        first, last = int(queries.min()), int(queries.max())
        start = 0 if self.window is None else max(0, first - self.window + 1)
        if self.chunk is not None:
            start = max(start, first // self.chunk * self.chunk)
        return start, last + 1

    def bias(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """fp32 [num_queries, num_keys] for position tensors: 0 where visible, else -inf."""
        queries = queries[:, None]
        hidden = keys > queries
        if self.window is not None:
            hidden |= keys <= queries - self.window
        if self.chunk is not None:
            hidden |= keys // self.chunk != queries // self.chunk
        return torch.zeros(hidden.shape, device=keys.device).masked_fill_(hidden, float("-inf"))


class Scoring(NamedTuple):
    """How q·k becomes a weight. sinks [num_heads]: logits that take weight but have no value."""

    scale: float
    softcap: float | None
    sinks: torch.Tensor | None

    def weights(self, scores: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """Scaled scores fp32 [num_kv_heads, group, rows, keys], overwritten, to weights."""
        if self.softcap is not None:
            scores = scores.div_(self.softcap).tanh_().mul_(self.softcap)
        if bias is not None:
            scores += bias
        if self.sinks is None:
            return scores.softmax(-1)
        num_kv_heads, group, rows, _ = scores.shape
        sinks = self.sinks.to(torch.float32).view(num_kv_heads, group, 1, 1)
        return torch.cat((scores, sinks.expand(-1, -1, rows, 1)), -1).softmax(-1)[..., :-1]


def paged_attention(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    out: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    positions: torch.Tensor,
    entries: torch.Tensor,
    cu_entries: torch.Tensor,
    *,
    scale: float,
    max_query_len: int,
    window: int | None = None,
    chunk: int | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    latent_dim: int | None = None,
    rope: Rotary | None = None,
    at_read: RotaryTable | None = None,
) -> None:
    """See `kvtool_kernels.paged_attention`. max_query_len is a launch bound; not needed here."""
    assert rope is None or at_read is None, "keys are cached with their rotation or without"
    turned = rope if at_read is None else at_read.rope
    assert turned is None or turned.start >= (latent_dim or 0), "a latent never turns"
    visibility, scoring = Visibility(window, chunk), Scoring(scale, softcap, sinks)
    rows, tables = cu_seqlens_q.tolist(), cu_entries.tolist()
    table = entries.cpu().numpy()
    for i in range(len(rows) - 1):
        if rows[i] == rows[i + 1]:
            continue
        queries = positions[rows[i] : rows[i + 1]]
        start, end = visibility.keys_of(queries)
        kv = gather(kv_cache, table[tables[i] : tables[i + 1]], start, end, latent_dim)
        kv = turn_keys(kv, at_read)
        step = rows_at_a_time(query.shape[1] * (end - start))
        for first in range(rows[i], rows[i + 1], step):
            block = slice(first, min(first + step, rows[i + 1]))
            turned_rows = turn_rows(query[block], positions[block], at_read)
            out[block], _ = attend(turned_rows, positions[block], kv, visibility, scoring, rope)


def rows_at_a_time(scores_per_row: int) -> int:
    return max(1, min(ROW_BLOCK, MAX_SCORES // scores_per_row))


def attend(
    query: torch.Tensor,
    queries: torch.Tensor,
    kv: Gathered,
    visibility: Visibility,
    scoring: Scoring,
    rope: Rotary | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows [rows, num_heads, head_dim] at positions `queries` -> [rows, num_heads, value_dim].

    And their weights, fp32 [num_kv_heads, group, rows, keys] of the keys that
    `visibility.keys_of(queries)` names.
    """
    rows = len(query)
    num_kv_heads = len(kv.key)
    start, end = visibility.keys_of(queries)
    scores = _scores(query.to(torch.float32) * scoring.scale, kv, start, end, rope)
    bias = None
    if rows > 1:  # a single row sees the whole of [start, end)
        bias = visibility.bias(queries, torch.arange(start, end, device=queries.device))
    weights = scoring.weights(scores.view(num_kv_heads, -1, rows, end - start), bias)
    value = kv.value[:, start - kv.start : end - kv.start].to(torch.float32)
    mixed = weights.flatten(1, 2) @ value  # [num_kv_heads, group * rows, value_dim]
    mixed = mixed.view(num_kv_heads, -1, rows, value.shape[-1]).flatten(0, 1).transpose(0, 1)
    return mixed, weights


def _scores(
    query: torch.Tensor, kv: Gathered, start: int, end: int, rope: Rotary | None
) -> torch.Tensor:
    """Scaled q·k for positions [start, end), fp32 [num_kv_heads, group * rows, end - start].

    q·(R(delta) k) = (R(-delta) q)·k: the query turns, the cached key stays as it is.
    """
    num_kv_heads = len(kv.key)
    key = kv.key[:, start - kv.start : end - kv.start].to(torch.float32).transpose(1, 2)
    if rope is None or all(run.delta == 0 for run in kv.runs):
        return _group(query, num_kv_heads) @ key
    turned: dict[int, torch.Tensor] = {}
    parts = []
    for run in kv.runs:
        columns = slice(max(run.start, start) - start, min(run.end, end) - start)
        if columns.start >= columns.stop:
            continue
        if run.delta not in turned:
            turned[run.delta] = _group(_turn_back(query, run.delta, rope), num_kv_heads)
        parts.append(turned[run.delta] @ key[..., columns])
    return torch.cat(parts, dim=-1)


def _turn_back(query: torch.Tensor, delta: int, rope: Rotary) -> torch.Tensor:
    if delta == 0:
        return query
    cos, sin = unit_rotation(torch.tensor(delta, device=query.device), rope.inv_freq)
    return rotate(query, cos, -sin, rope)


def _group(query: torch.Tensor, num_kv_heads: int) -> torch.Tensor:
    """[rows, num_heads, head_dim] -> [num_kv_heads, group * rows, head_dim]."""
    rows, num_heads, head_dim = query.shape
    heads = query.view(rows, num_kv_heads, num_heads // num_kv_heads, head_dim)
    return heads.permute(1, 2, 0, 3).reshape(num_kv_heads, -1, head_dim)
