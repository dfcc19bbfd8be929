"""A model over dense K and V by position, in float64: no pages, no turned queries, no absorption.

The oracle of the selecting repairs: rows are fed over K and V of which some are stale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from kvtool.models.attention_layer import AttentionLayer
from kvtool.models.attention_switch import AttentionSwitch
from kvtool.models.capture import TokenCache
from kvtool.models.contract import cache_argument
from kvtool.models.hf import PagedModel
from kvtool_kernels import Rotary

Dense = list[torch.Tensor]  # a layer: [num_tokens, num_kv_heads, dim]


class DenseCache(TokenCache):
    """keys, values: a layer each, as the model gave them to `update`; rows are set in place.

    mass [rows, num_tokens]: weights summed over layers and heads.
    """

    def __init__(
        self, layers: Sequence[AttentionLayer], positions: torch.Tensor, keys: Dense, values: Dense
    ) -> None:
        super().__init__()
        self.layers_of_model, self.positions = layers, positions
        self.keys, self.values = keys, values
        self.mass = torch.zeros(len(positions), int(positions.max()) + 1, dtype=torch.float64)
        self.current = -1

    def get_seq_length(self, layer_idx: int | None = None) -> Any:
        return 0 if layer_idx is None else self.positions - torch.arange(len(self.positions))

    def update(self, key: Any, value: Any, layer_idx: int, *_: Any, **__: Any) -> Any:
        num_tokens = int(self.positions.max()) + 1
        for kept, new in ((self.keys, key), (self.values, value)):
            rows = new[0].transpose(0, 1)
            if layer_idx == len(kept):
                kept.append(torch.full((num_tokens, *rows.shape[1:]), float("nan")))
            kept[layer_idx][self.positions] = rows
        self.current = layer_idx
        return key, value

    def attend(
        self,
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: None,
        scaling: float | None = None,
        softcap: float | None = None,
        s_aux: torch.Tensor | None = None,
        **_: Any,
    ) -> tuple[torch.Tensor, None]:
        num_tokens = self.mass.shape[1]
        keys = self.keys[self.current][:num_tokens].double()
        values = self.values[self.current][:num_tokens].double()
        layer, query = self.layers_of_model[self.current], query[0].transpose(0, 1).double()
        if layer.is_latent:
            keys, values = _expanded(module, keys, values, query.shape[1])
        group = query.shape[1] // keys.shape[1]
        keys, values = (part.repeat_interleave(group, dim=1) for part in (keys, values))
        scores = torch.einsum("qhd,khd->qhk", query, keys)
        scores *= query.shape[-1] ** -0.5 if scaling is None else scaling
        if softcap is not None:
            scores = softcap * (scores / softcap).tanh()
        visible = _visible(self.positions[:, None], torch.arange(num_tokens)[None], layer)
        weights = scores.exp().where(visible[:, None], 0.0)
        sinks = 0.0 if s_aux is None else s_aux.double().exp()[:, None]
        weights = weights / (weights.sum(-1, keepdim=True) + sinks)
        self.mass += weights.sum(1)
        values = values.nan_to_num(0)  # not there yet, and seen by no row: the weights say so
        return torch.einsum("qhk,khd->qhd", weights, values).to(query.dtype)[None].float(), None


def _visible(queries: torch.Tensor, keys: torch.Tensor, layer: AttentionLayer) -> torch.Tensor:
    seen = keys <= queries
    if layer.window is not None:
        seen = seen & (queries - keys < layer.window)
    if layer.chunk is not None:
        seen = seen & (queries // layer.chunk == keys // layer.chunk)
    return seen


def _expanded(
    module: Any, latent: torch.Tensor, turned: torch.Tensor, num_heads: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """K and V of every head from the latent and the rotated row."""
    both = torch.nn.functional.linear(latent, module.kv_b_proj.weight.double())
    both = both.view(len(latent), num_heads, -1)
    keys = torch.cat((both[..., : -module.v_head_dim], turned.expand(-1, num_heads, -1)), dim=-1)
    return keys, both[..., -module.v_head_dim :]


@torch.no_grad()
def dense_forward(
    paged: PagedModel,
    tokens: Sequence[int],
    positions: Sequence[int],
    keys: Dense | None = None,
    values: Dense | None = None,
) -> DenseCache:
    """Tokens at these positions over the K and V given (which grow or are overwritten)."""
    rows = torch.tensor(list(positions))
    empty: Dense = []
    cache = DenseCache(paged.layers, rows, keys if keys is not None else empty, values or [])
    with AttentionSwitch(paged.model).to(cache.attend):
        paged.model(
            input_ids=torch.tensor(list(tokens))[None],
            position_ids=rows[None],
            use_cache=True,
            **{cache_argument(paged.model): cache},
        )
    return cache


def turned(key: torch.Tensor, delta: int, rotary: Rotary | None) -> torch.Tensor:
    """K moved by delta: one complex multiplication a pair; key [num_tokens, num_kv_heads, dim]."""
    if rotary is None:
        return key
    moved = key.double().clone()
    part = moved[..., rotary.start : rotary.end]
    half = part.shape[-1] // 2
    if rotary.interleaved:
        first, second = part[..., 0::2].clone(), part[..., 1::2].clone()
    else:
        first, second = part[..., :half].clone(), part[..., half:].clone()
    pairs = torch.complex(first, second) * torch.exp(1j * delta * rotary.inv_freq)
    if rotary.interleaved:
        part[..., 0::2], part[..., 1::2] = pairs.real, pairs.imag
    else:
        part[..., :half], part[..., half:] = pairs.real, pairs.imag
    return moved.float()
