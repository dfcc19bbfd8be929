"""The same text at two positions: what differs in the cache, and what a rotation brings back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from transformers import DynamicCache

from kvtool.cache.block_keys import BlockKeys
from kvtool.cache.block_pool import Tokens
from kvtool.models.capture import Stored
from kvtool.models.contract import cache_argument
from kvtool.models.first_layer import fresh_first_layer_keys
from kvtool.models.hf import PagedModel
from kvtool.models.layout import Layout
from kvtool.models.rope_fact import Fact, Measured
from kvtool.tiers.disk.run_format import content_hash
from kvtool_kernels import Rotary, rotate, unit_rotation

BLOCK_SIZE = 16
# Relative L2 of a moved key of layer 0 against one computed in place: rounding of the dtype (twice,
# and of cosines and sines), and the model's own fp32 angles: 1e-3 at position 131,072.
ROUNDING = {torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 5e-3}
ANGLES = 1e-3 / 131072  # a token of the farthest position


def tolerance(dtype: torch.dtype, farthest: int) -> float:
    return max(ROUNDING[dtype], farthest * ANGLES)


class Texts(NamedTuple):
    """Token ids. near, far: what stands in front of `text` in two prompts; whole blocks all."""

    text: Sequence[int]
    near: Sequence[int]
    far: Sequence[int]

    @property
    def delta(self) -> int:
        return len(self.far) - len(self.near)


@torch.inference_mode()
def stored_kv(paged: PagedModel, tokens: Sequence[int], front: int) -> list[Stored]:
    """KV of tokens[front:] in every layer, by the model's own attention and cache.

    key [T, num_kv_heads, head_dim] (MLA: [T, 1, latent + rope]), value likewise (MLA: the latent).
    """
    cache = DynamicCache()
    ids = torch.tensor([list(tokens)], device=paged.device)
    paged.model(
        input_ids=ids, use_cache=True, logits_to_keep=1, **{cache_argument(paged.model): cache}
    )
    found = []
    for layer, spec in zip(cache.layers, paged.layers, strict=True):
        key, value = layer.keys[0], layer.values[0]
        if spec.is_latent:
            key, value = torch.cat((key, value), dim=-1), key
        found.append(Stored(*(part[:, front:].transpose(0, 1) for part in (key, value))))
    return found


def same_text_at_two_positions(
    layout: Layout, texts: Texts, near: Sequence[Stored], far: Sequence[Stored], namespace: bytes
) -> Fact:
    """near, far: `stored_kv` of the text in both prompts."""
    limit = tolerance(near[0].key.dtype, len(texts.far) + len(texts.text))
    keys = [
        relative_error(turn(one.key, layout.rotary(index), texts.delta), other.key)
        for index, (one, other) in enumerate(zip(near, far, strict=True))
    ]
    value = relative_error(near[0].value, far[0].value)
    return Fact(
        "the same text at two positions",
        f"The text at {len(texts.near)} and at {len(texts.far)}, behind other words: other bytes "
        "and other block hashes, the same content, and in layer 0 the same key after the turn.",
        (
            Measured("blocks whose K has the same bytes", _same_bytes(near, far), 0),
            Measured("blocks with the same chained hash", _same_chain(texts, namespace), 0),
            Measured("blocks with another content hash", _other_content(texts, namespace), 0),
            Measured("layer 0: K turned by delta, relative L2", keys[0], limit),
            Measured(
                "layer 0: K as it stands, relative L2", relative_error(near[0].key, far[0].key)
            ),
            Measured("layer 0: V, relative L2", value, limit),
            Measured("last layer: K turned by delta, relative L2 (other context)", keys[-1]),
        ),
    )


def first_layer_moves(
    paged: PagedModel,
    rotary: Rotary | None,
    tokens: Sequence[int],
    home: int,
    deltas: Sequence[int],
) -> Fact:
    """Keys of layer 0 at `home`, turned by each delta, against fresh ones (first_layer.py)."""
    ids = torch.tensor(list(tokens), device=paged.device)

    def keys_at(first: int) -> torch.Tensor:
        positions = torch.arange(first, first + len(ids), device=paged.device)
        return fresh_first_layer_keys(paged, ids, positions)

    stored = keys_at(home)
    return Fact(
        "a move is exact in layer 0",
        "Before any attention a key depends on its token and position only, so there a moved key "
        "is a fresh one, however far it goes.",
        tuple(
            Measured(
                f"moved by {delta}, relative L2",
                relative_error(turn(stored, rotary, delta), keys_at(home + delta)),
                tolerance(stored.dtype, home + len(tokens) + max(delta, 0)),
            )
            for delta in deltas
        ),
    )


def turn(key: torch.Tensor, rotary: Rotary | None, delta: int) -> torch.Tensor:
    if rotary is None:
        return key
    angles = unit_rotation(torch.tensor(delta, device=key.device), rotary.inv_freq)
    return rotate(key, *angles, rotary)


def relative_error(one: torch.Tensor, other: torch.Tensor) -> float:
    """Relative L2 distance, in float64."""
    one, other = one.to(torch.float64), other.to(torch.float64)
    return float((one - other).norm() / other.norm())


def _same_bytes(near: Sequence[Stored], far: Sequence[Stored]) -> int:
    """Blocks of which K is the same, bit for bit, in all layers."""
    rows = [(one.key == other.key).flatten(1).all(1) for one, other in zip(near, far, strict=True)]
    return int(torch.stack(rows).all(0).view(-1, BLOCK_SIZE).all(1).sum())


def _same_chain(texts: Texts, namespace: bytes) -> int:
    chains = []
    for front in (texts.near, texts.far):
        keys = BlockKeys(namespace, _array([*front, *texts.text]), BLOCK_SIZE)
        chains.append(keys.span(len(front) // BLOCK_SIZE, len(keys)))
    return sum(one == other for one, other in zip(*chains, strict=True))


def _other_content(texts: Texts, namespace: bytes) -> int:
    contents = []
    for front in (texts.near, texts.far):
        tokens = _array([*front, *texts.text])
        starts = range(len(front), len(tokens), BLOCK_SIZE)
        contents.append([content_hash(namespace, tokens[s : s + BLOCK_SIZE]) for s in starts])
    return sum(one != other for one, other in zip(*contents, strict=True))


def _array(tokens: Sequence[int]) -> Tokens:
    return np.asarray(tokens, dtype=np.int32)
