"""The pairs of values that a model turns, and how fast: layer by layer, fast to slow.

RoPE turns pair i of a key by `position * frequency[i]`. A fast pair tells neighbours apart; a slow
one that never completes a turn within the context tells far from near without ambiguity.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kvtool.models.attention_layer import AttentionLayer
from kvtool.models.layout import Layout
from kvtool_kernels import Rotary


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerPairs:
    """Layers that turn their keys alike.

    part: "NoPE", "whole head", "partial rotary" or "rotary part of MLA". values: the range of
    the head (MLA: of the row, latent first) that is turned, half-open; None: NoPE.
    pairing: "half-split" or "interleaved". direction: "forward", or "backward" where keys turn
    against the usual sense (nanochat).
    frequencies: radians a token, fast to slow. wavelengths: tokens for a whole turn; None: the
    pair stands still. unfinished: pairs that never complete a turn within the context.
    """

    layers: tuple[int, ...]
    part: str
    head_dim: int
    values: tuple[int, int] | None = None
    pairing: str | None = None
    direction: str | None = None
    frequencies: tuple[float, ...] = ()
    wavelengths: tuple[float | None, ...] = ()
    unfinished: int = 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def layer_pairs(
    layout: Layout, layers: Sequence[AttentionLayer], context: int
) -> tuple[LayerPairs, ...]:
    """One for each kind of layer, in the order of its first layer. context: tokens."""
    members: dict[tuple[object, ...], list[int]] = {}
    for index, layer in enumerate(layers):
        members.setdefault((layer.head_dim, *_identity(layout.rotary(index))), []).append(index)
    return tuple(
        _pairs(tuple(indices), layers[indices[0]], layout.rotary(indices[0]), context)
        for indices in members.values()
    )


def _identity(rotary: Rotary | None) -> tuple[object, ...]:
    if rotary is None:
        return ()
    return (*rotary.inv_freq.tolist(), rotary.interleaved, rotary.start)


def _pairs(
    indices: tuple[int, ...], layer: AttentionLayer, rotary: Rotary | None, context: int
) -> LayerPairs:
    if rotary is None:
        return LayerPairs(layers=indices, part="NoPE", head_dim=layer.head_dim)
    speeds = sorted(rotary.inv_freq.abs().tolist(), reverse=True)
    wavelengths = tuple(2 * math.pi / speed if speed else None for speed in speeds)
    return LayerPairs(
        layers=indices,
        part=_part(layer, rotary),
        head_dim=layer.head_dim,
        values=(rotary.start, rotary.end),
        pairing="interleaved" if rotary.interleaved else "half-split",
        direction="forward" if float(rotary.inv_freq.sum()) > 0 else "backward",
        frequencies=tuple(speeds),
        wavelengths=wavelengths,
        unfinished=sum(length is None or length > context for length in wavelengths),
    )


def _part(layer: AttentionLayer, rotary: Rotary) -> str:
    if layer.is_latent:
        return "rotary part of MLA"
    whole = rotary.end - rotary.start == layer.head_dim
    return "whole head" if whole else "partial rotary"
