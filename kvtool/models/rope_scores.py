"""Scores depend on distance only: q·k at (m, n) is q·k at (m + s, n + s)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.functional import normalize

from kvtool.models.attention_switch import AttentionSwitch
from kvtool.models.capture import TokenCache
from kvtool.models.contract import cache_argument
from kvtool.models.hf import PagedModel
from kvtool.models.layout_probe import TOLERANCE
from kvtool.models.rope_algebra import TurnedKeys
from kvtool.models.rope_fact import Fact, Measured
from kvtool_kernels import rotate, unit_rotation

FP32_ANGLES = 2.0**-23  # radians that an angle in fp32 may be off, a radian
QUERY_SIDE = 1e-6  # cosines; sums of fp32 products


class Pair(NamedTuple):
    """A query and a key in one layer: its tokens' positions."""

    query: int
    key: int


def scores_depend_on_distance(
    paged: PagedModel, tokens: tuple[int, int], pair: Pair, shifts: Sequence[int]
) -> Fact:
    """tokens: the query's and the key's. Scores are cosines, so that they compare across layers.

    One forward of 2 * (1 + shifts) tokens in which attention answers zeros: a query and a key then
    depend on their token and position alone, in every layer.
    """
    places = [Pair(pair.query + shift, pair.key + shift) for shift in (0, *shifts)]
    cosines, lengths = _scores(paged, tokens, [*places, Pair(pair.query + 1, pair.key)])
    changes = (cosines - cosines[0]).abs().amax(-1).tolist()
    checks = [
        Measured(
            f"both {shift} further: worst change of cos(q, k), all layers and heads",
            change,
            TOLERANCE[paged.dtype] + max(place) * FP32_ANGLES,
        )
        for shift, place, change in zip(shifts, places[1:], changes[1:-1], strict=True)
    ]
    stretch = float((lengths / lengths[0] - 1).abs().max())
    return Fact(
        "scores depend on distance",
        f"A query at {pair.query} sees a key at {pair.key} as it would with both moved by the "
        "same number of tokens.",
        (
            *checks,
            Measured("for comparison, the query alone 1 further", changes[-1]),
            Measured("|q| changes with the position by (Llama 4's temperature)", stretch),
        ),
    )


def query_turns_instead(keys: Sequence[TurnedKeys], deltas: Sequence[int]) -> Fact:
    """keys: one a kind of layer; each key also plays the query. deltas: in tokens."""
    worst = max(_query_side_error(turned, delta) for turned in keys for delta in deltas)
    return Fact(
        "the query turns instead of the key",
        "(R(-delta) q)·k is q·(R(delta) k), so attention reads a key at any position and never "
        "rewrites it.",
        (Measured("worst difference of cos(q, k), float32", worst, QUERY_SIDE),),
    )


def _query_side_error(turned: TurnedKeys, delta: int) -> float:
    rows = normalize(turned.key.to(torch.float32), dim=-1).transpose(0, 1)
    cos, sin = unit_rotation(torch.tensor(delta, device=rows.device), turned.rotary.inv_freq)
    forwards = rotate(rows, cos, sin, turned.rotary)
    backwards = rotate(rows, cos, -sin, turned.rotary)
    return float((backwards @ rows.mT - rows @ forwards.mT).abs().max())


@torch.inference_mode()
def _scores(
    paged: PagedModel, tokens: tuple[int, int], places: Sequence[Pair]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines of q and k, and lengths of q: float64 [places, heads of all layers] each."""
    cache = _ScoreCache()
    with AttentionSwitch(paged.model).to(cache.attend):
        paged.model(
            input_ids=torch.tensor([list(tokens) * len(places)], device=paged.device),
            position_ids=torch.tensor([[p for pair in places for p in pair]], device=paged.device),
            use_cache=True,
            logits_to_keep=1,
            **{cache_argument(paged.model): cache},
        )
    cosines = [torch.cosine_similarity(*layer, dim=-1) for layer in cache.layers]
    lengths = [query.norm(dim=-1) for query, _ in cache.layers]
    return torch.cat(cosines, dim=1), torch.cat(lengths, dim=1)


class _ScoreCache(TokenCache):
    """Notes queries and keys as attention gets them (MLA: expanded), float64 [places, heads, dim]."""

    def __init__(self) -> None:
        super().__init__()
        self.layers: list[tuple[torch.Tensor, torch.Tensor]] = []

    def get_seq_length(self, layer_idx: int | None = None) -> int:
        return 0

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
        heads = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
        queries, keys = (part[0].transpose(0, 1).to(torch.float64) for part in (query, heads))
        self.layers.append((queries[0::2], keys[1::2]))
        return query.new_zeros(1, query.shape[2], query.shape[1], value.shape[-1]), None
