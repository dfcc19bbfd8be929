"""One step's cache and attention: `update` writes pages, `attend` reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kvtool.models.attention_layer import AttentionLayer
from kvtool.models.capture import TokenCache
from kvtool.models.inputs import ForwardInputs
from kvtool.models.mla import LatentProjection
from kvtool_kernels import Rotary, RotaryTable, paged_attention, store_kv


@dataclass(frozen=True, slots=True, eq=False)
class PagedLayer:
    """A layer and its view of the group's pool.

    rope: what its cached keys are rotated by, if known. at_read: what they are yet to be rotated
    by. Both None also where keys never turn (NoPE).
    """

    spec: AttentionLayer
    group: int
    kv_cache: torch.Tensor
    rope: Rotary | None = None
    at_read: RotaryTable | None = None


class PagedCache(TokenCache):
    """Lives for one forward and carries its inputs to every layer.

    A Transformers layer calls `update` with post-RoPE K and V (MLA: latent and rotated row; all
    of it turned by nothing where positions are 0) and then its attention function, here `attend`. `update` hands back the new rows only; the
    cached ones never leave their pages.
    """

    def __init__(self, layers: Sequence[PagedLayer], inputs: ForwardInputs) -> None:
        super().__init__()
        self._layers = layers
        self._inputs = inputs
        self._positions = inputs.positions.to(torch.int32)
        self._current: int | None = None  # stored, its attention not yet computed

    def get_seq_length(self, layer_idx: int | None = None) -> Any:
        """Model level: 0, `position_ids` say where tokens stand. Asked by a layer (Llama-4's
        temperature by position): tokens before each row, so that arange + this = position."""
        if layer_idx is None:
            return 0
        positions = self._inputs.positions
        return positions - torch.arange(len(positions), device=positions.device)

    def update(
        self, key: torch.Tensor, value: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """key, value [1, num_kv_heads, T, head_dim]; MLA: [1, 1, T, latent], [1, 1, T, rope]."""
        if self._inputs.wait is not None:
            self._inputs.wait(layer_idx)
        layer = self._layers[layer_idx]
        slots = self._inputs.groups[layer.group].slots
        if layer.spec.is_latent:
            store_kv(torch.cat((key, value), dim=-1)[0, 0], None, layer.kv_cache, slots)
        else:
            store_kv(key[0].transpose(0, 1), value[0].transpose(0, 1), layer.kv_cache, slots)
        self._current = layer_idx
        return key, value

    def attend(
        self,
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        scaling: float | None = None,
        softcap: float | None = None,
        s_aux: torch.Tensor | None = None,
        **_: Any,
    ) -> tuple[torch.Tensor, None]:
        """query [1, num_heads, T, head_dim] -> [1, T, num_heads, value_dim]; s_aux: sinks."""
        assert self._current is not None, "attention without a cache update"
        assert attention_mask is None, "a mask was made although none was asked for"
        layer, self._current = self._layers[self._current], None
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        rows = query[0].transpose(0, 1)
        if layer.spec.is_latent:
            projection = LatentProjection.of(module, rows.shape[1])
            mixed = self._paged_attention(projection.absorb(rows), layer, scale, softcap, s_aux)
            return projection.expand(mixed)[None], None
        return self._paged_attention(rows, layer, scale, softcap, s_aux)[None], None

    def _paged_attention(
        self,
        query: torch.Tensor,
        layer: PagedLayer,
        scale: float,
        softcap: float | None,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        spec, inputs, group = layer.spec, self._inputs, self._inputs.groups[layer.group]
        value_dim = spec.latent_dim or spec.head_dim
        out = query.new_empty(query.shape[0], query.shape[1], value_dim)
        paged_attention(
            query,
            layer.kv_cache,
            out,
            inputs.cu_seqlens_q,
            self._positions,
            group.entries,
            group.cu_entries,
            scale=scale,
            max_query_len=inputs.max_query_len,
            window=spec.window,
            chunk=spec.chunk,
            softcap=softcap,
            sinks=sinks,
            latent_dim=spec.latent_dim,
            rope=layer.rope if inputs.has_deltas else None,
            at_read=layer.at_read,
        )
        return out
