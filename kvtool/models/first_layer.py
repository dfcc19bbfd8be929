"""Is a cached key what the target position needs? Layer 0 can tell, exactly and cheaply.

What layer 0 stores for a token depends on the token and its position alone: no attention came
before it. So its keys are computed afresh at the target (embedding, norm, projection and RoPE of
one layer), and the stored ones, turned by delta, have to agree. Other tokens, a wrong delta or a
wrong home show up at once; in the layers above, where the context differs too, they would not.

Where layer 0 leaves its keys unturned (NoPE) and a later layer turns them, nothing takes its
place: keys of the first turned layer have seen the context, so fresh ones differ in a good move
as well, and to repeat them needs the whole donor. Such a model keeps exact reuse
(`unchecked_reason`). If no layer turns its keys, the check says what it has to: same tokens.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn.functional import pad

from kvtool.models.attention_switch import AttentionSwitch
from kvtool.models.capture import Stored, TokenCache
from kvtool.models.contract import cache_argument
from kvtool.models.hf import PagedModel
from kvtool.models.layout import Layout
from kvtool_kernels import Rotary, rotate, unit_rotation

LIMIT = 0.05  # relative error above which a run is recomputed
WINDOW = 16  # tokens whose fast pairs are judged together


def unchecked_reason(layout: Layout) -> str | None:
    """Why moves of this model's keys cannot be checked; None: they can."""
    if layout.layers[0] is None and any(layer is not None for layer in layout.layers):
        return "layer 0 does not turn its keys, so whether a moved key fits cannot be checked"
    return None


@torch.inference_mode()
def fresh_first_layer_keys(
    paged: PagedModel, token_ids: torch.Tensor, positions: torch.Tensor
) -> torch.Tensor:
    """What layer 0 stores as K for these tokens: [T, num_kv_heads, head_dim].

    token_ids, positions: int64 [T], T > 0. MLA: [T, 1, latent + rope]. The forward ends where
    the first layer hands its K and V to the cache: before any attention, and without logits.
    """
    try:
        with AttentionSwitch(paged.model).to(_no_attention):
            paged.model(
                input_ids=token_ids[None],
                position_ids=positions[None],
                use_cache=True,
                logits_to_keep=1,
                **{cache_argument(paged.model): _FirstLayerCache()},
            )
    except _FirstStored as reached:
        key, value = reached.stored
        row = torch.cat((key, value), dim=-1) if paged.layers[0].is_latent else key
        return row[0].transpose(0, 1)
    raise AssertionError("a forward without a cache update")


def stored_first_layer_keys(paged: PagedModel, slots: torch.Tensor) -> torch.Tensor:
    """What layer 0 has in these slots (int64 [T]) of its group's pool; shape as above."""
    pool = paged.pools[0][:, 0]  # layer 0 is the first layer of the first group
    block_size = pool.shape[-2]
    blocks, offsets = slots // block_size, slots % block_size
    if paged.layers[0].is_latent:
        return pool[blocks, offsets][:, None]
    return pool[blocks, 0, :, offsets]


def first_layer_error(
    fresh: torch.Tensor, stored: torch.Tensor, rotary: Rotary | None, delta: int
) -> float:
    """Relative L2 error of stored keys turned by delta, the larger of two; NaN counts as inf.

    fresh, stored: [T, num_kv_heads, head_dim], T > 0. rotary: of layer 0; None: NoPE.
    The worst row (a token's head) says whether these are the keys of these tokens. The worst
    head's fast pairs, 16 tokens at a time, say whether they stand at the right position: a delta
    off by one moves every pair that turns by w radians a token by 2 sin(w / 2) of its length,
    which a whole row can hide (the latent of MLA, values outside a partial rotary, the large
    biases on slow pairs of Qwen2's layer 0).
    """
    assert len(fresh), "no token to compare"
    fresh, stored = fresh.to(torch.float32), stored.to(torch.float32)
    if rotary is not None:
        angles = unit_rotation(torch.tensor(delta, device=stored.device), rotary.inv_freq)
        stored = rotate(stored, *angles, rotary)
    wrong, right = (stored - fresh).square(), fresh.square()
    worst = _worst_ratio(wrong.sum(-1), right.sum(-1))
    if rotary is not None:
        fast = _fast_values(rotary)
        by_window = (_by_window(part[..., fast].sum(-1)) for part in (wrong, right))
        worst = max(worst, _worst_ratio(*by_window))
    return worst


def _worst_ratio(wrong: torch.Tensor, right: torch.Tensor) -> float:
    smallest = torch.finfo(torch.float32).tiny
    worst = float((wrong / right.clamp_min(smallest)).max().sqrt())
    return math.inf if math.isnan(worst) else worst


def _fast_values(rotary: Rotary) -> torch.Tensor:
    """Indices, within a head, of the pairs that turn at least half as fast as the fastest."""
    speeds = rotary.inv_freq.abs()
    pairs = (speeds >= speeds.max() / 2).nonzero()[:, 0]
    if rotary.interleaved:
        return rotary.start + torch.cat((2 * pairs, 2 * pairs + 1))
    return rotary.start + torch.cat((pairs, pairs + len(speeds)))


def _by_window(energy: torch.Tensor) -> torch.Tensor:
    """Sums over WINDOW tokens each: [T, num_kv_heads] -> [ceil(T / WINDOW), num_kv_heads]."""
    num_tokens, num_heads = energy.shape
    padded = pad(energy, (0, 0, 0, -num_tokens % WINDOW))
    return padded.view(-1, WINDOW, num_heads).sum(1)


def _no_attention(*_: Any, **__: Any) -> tuple[torch.Tensor, None]:
    raise AssertionError("attention before the first cache update")


class _FirstStored(Exception):
    """Carries what the first layer stored out of the forward."""

    def __init__(self, stored: Stored) -> None:
        super().__init__()
        self.stored = stored


class _FirstLayerCache(TokenCache):
    """Ends the forward at the first K and V."""

    def get_seq_length(self, layer_idx: int | None = None) -> int:
        return 0

    def update(
        self, key: torch.Tensor, value: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        raise _FirstStored(Stored(key, value))
