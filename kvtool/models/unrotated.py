"""Scheme "nope": keys are cached without their rotation and get it where they are read.

The model runs with every position 0, where a rotation does nothing: queries and keys come out of
its layers unrotated, with any magnitude that it puts on them (YaRN), and attention turns both for
their true positions. That is right if the rotation is all that a position does in this model.
"""

from __future__ import annotations

from typing import Any

import torch

from kvtool.models.attention_switch import AttentionSwitch
from kvtool.models.capture import TokenCache
from kvtool.models.contract import cache_argument
from kvtool.models.hf import PagedModel
from kvtool.models.layout import Layout
from kvtool.models.layout_probe import FARTHEST, TOLERANCE
from kvtool.models.rope_regime import length_dependent_rope
from kvtool_kernels import Rotary, rotate, unit_rotation

FP32_ANGLES = 2.0**-23  # radians that the model's own angle may be off, a radian


@torch.inference_mode()
def other_use_of_positions(paged: PagedModel, layout: Layout) -> str | None:
    """What else a position does in this model than turn queries and keys; None: nothing.

    layout: without a reason against moving keys (its probe has seen to K and V). One forward of
    eight tokens in which attention answers zeros, so that a query depends on token and position
    alone.
    """
    rope = length_dependent_rope(paged.model.config)
    if rope is not None:
        return f"{rope} RoPE chooses its frequencies by the positions it is told"
    last = paged.max_model_len - 1
    positions = [0, 1, max(1, min(last // 2, FARTHEST)), last]
    tolerance = TOLERANCE[paged.dtype]
    for index, queries in enumerate(_queries(paged, positions)):
        lengths = queries.norm(dim=-1)
        if float((lengths / lengths[0] - 1).abs().max()) > tolerance:
            return f"layer {index} scales its queries by position (temperature)"
        rotary, row_dim = layout.rotary(index), paged.layers[index].head_dim
        for place, turned in zip(positions[1:], queries[1:], strict=True):
            expected = _turned(queries[0], place, rotary, row_dim)
            error = float((turned - expected).norm() / expected.norm())
            if not error <= tolerance + place * FP32_ANGLES:
                return f"the queries of layer {index} are not turned as its keys are ({error:.1e})"
    return None


def _turned(
    query: torch.Tensor, position: int, rotary: Rotary | None, row_dim: int
) -> torch.Tensor:
    """query [tokens, heads, dim] of position 0. row_dim: of a cached row; of MLA's query the part
    in front of the rotated values has another length than the latent."""
    if rotary is None:
        return query
    rotary = rotary._replace(start=rotary.start + query.shape[-1] - row_dim)
    angles = unit_rotation(torch.tensor(position, device=query.device), rotary.inv_freq)
    return rotate(query, *angles, rotary)


def _queries(paged: PagedModel, positions: list[int]) -> list[torch.Tensor]:
    """Of two tokens at each position, fp32 [positions, tokens, heads, dim] a layer."""
    tokens = [paged.vocab_size // 3, paged.vocab_size // 2]
    places = torch.tensor([p for p in positions for _ in tokens], device=paged.device)
    cache = _QueryCache(places)
    with AttentionSwitch(paged.model).to(cache.attend):
        paged.model(
            input_ids=torch.tensor([tokens * len(positions)], device=paged.device),
            position_ids=places[None],
            use_cache=True,
            logits_to_keep=1,
            **{cache_argument(paged.model): cache},
        )
    rows = len(positions), len(tokens)
    return [query.reshape(*rows, *query.shape[1:]) for query in cache.queries]


class _QueryCache(TokenCache):
    """Notes the queries as attention gets them."""

    def __init__(self, positions: torch.Tensor) -> None:
        super().__init__()
        self.queries: list[torch.Tensor] = []
        self._positions = positions

    def get_seq_length(self, layer_idx: int | None = None) -> Any:
        """As `PagedCache` has it: asked by a layer, its rows stand at their positions."""
        places = self._positions
        return 0 if layer_idx is None else places - torch.arange(len(places), device=places.device)

    def update(
        self, key: torch.Tensor, value: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return key, value

    def attend(
        self,
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *_: Any,
        **__: Any,
    ) -> tuple[torch.Tensor, None]:
        self.queries.append(query[0].transpose(0, 1).to(torch.float32))
        return query.new_zeros(1, query.shape[2], query.shape[1], value.shape[-1]), None
