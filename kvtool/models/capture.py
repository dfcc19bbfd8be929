"""See what a model does with its KV: one tiny forward, before any pool exists.

Attention answers zeros there. So every row passes through the layers by itself: what a layer
stores for a token depends on the token and its position, not on its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from transformers import PreTrainedModel
from transformers.cache_utils import Cache

from kvtool.models.attention_layer import AttentionLayer, Unsupported
from kvtool.models.attention_switch import AttentionSwitch
from kvtool.models.mask_pattern import MaskPattern, pattern_as_mask, pattern_of_mask


class TokenCache(Cache):  # type: ignore[misc]
    """A Transformers cache for KV by token only: other states have no place in a block."""

    def __init__(self) -> None:
        super().__init__(layers=[])

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise Unsupported("it keeps recurrent, convolution or indexer states besides KV")

    get_conv_state = update_conv_state = _refuse
    get_recurrent_state = update_recurrent_state = _refuse
    has_previous_state = update_indexer = _refuse

    def get_query_offset(self, layer_idx: int = 0) -> int:
        return 0

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        return query_length, 0


class Stored(NamedTuple):
    """What a layer gave to `update`: [1, num_kv_heads, T, dim] each."""

    key: torch.Tensor
    value: torch.Tensor


class LayerTrace(NamedTuple):
    spec: AttentionLayer
    stored: Stored


class _CaptureCache(TokenCache):
    """Notes what `update` is given and what the attention call right after it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: dict[int, Stored] = {}
        self.specs: dict[int, AttentionLayer] = {}
        self._current: int | None = None

    def get_seq_length(self, layer_idx: int | None = None) -> int:
        return 0

    def update(
        self, key: torch.Tensor, value: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if layer_idx in self.stored:
            raise Unsupported(f"layer {layer_idx} stores its KV twice in one forward")
        self.stored[layer_idx] = Stored(key, value)
        self._current = layer_idx
        return key, value

    def attend(
        self,
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        sliding_window: int | None = None,
        position_bias: torch.Tensor | None = None,
        **_: Any,
    ) -> tuple[torch.Tensor, None]:
        if self._current is None:
            raise Unsupported("it has attention without KV of its own (shared or cross-attention)")
        if position_bias is not None:
            raise Unsupported("it adds a position bias (ALiBi or relative) to the scores")
        index, self._current = self._current, None
        pattern = pattern_of_mask(attention_mask, sliding_window)
        self.specs[index] = _describe(module, self.stored[index], pattern)
        out = query.new_zeros(1, query.shape[2], query.shape[1], value.shape[-1])
        return out, None


def _describe(module: torch.nn.Module, stored: Stored, pattern: MaskPattern) -> AttentionLayer:
    _, num_kv_heads, _, key_dim = stored.key.shape
    value_dim = stored.value.shape[-1]
    projection: Any = getattr(module, "kv_b_proj", None)
    is_latent = projection is not None and num_kv_heads == 1 and key_dim == module.kv_lora_rank
    if is_latent and projection.bias is not None:
        raise Unsupported("its latent projection kv_b_proj has a bias")
    if not is_latent and key_dim != value_dim:
        raise Unsupported(f"K and V differ in head_dim ({key_dim} and {value_dim})")
    return AttentionLayer(
        kind="latent" if is_latent else "kv",
        num_kv_heads=num_kv_heads,
        head_dim=key_dim + value_dim if is_latent else key_dim,
        dtype=stored.value.dtype,
        latent_dim=key_dim if is_latent else None,
        window=pattern.window,
        chunk=pattern.chunk,
    )


@torch.inference_mode()
def trace_layers(
    model: PreTrainedModel,
    switch: AttentionSwitch,
    cache_argument: str,
    tokens: Sequence[int],
    positions: Sequence[int],
) -> tuple[LayerTrace, ...]:
    """What each layer stores for these tokens at these positions, in layer order.

    Raises `Unsupported` where a layer does not store K and V once and then attend once.
    """
    cache = _CaptureCache()
    with switch.to(cache.attend, pattern_as_mask):
        model(
            input_ids=torch.tensor([tokens], device=model.device),
            position_ids=torch.tensor([positions], device=model.device),
            use_cache=True,
            logits_to_keep=1,
            **{cache_argument: cache},
        )
    if not cache.stored:
        raise Unsupported("it keeps no KV cache that Transformers manages")
    for index in cache.stored.keys() - cache.specs.keys():
        raise Unsupported(f"attention of layer {index} bypasses the registry of Transformers")
    if sorted(cache.stored) != list(range(len(cache.stored))):
        raise Unsupported("only some of its layers keep KV")
    return tuple(LayerTrace(cache.specs[i], cache.stored[i]) for i in sorted(cache.stored))
