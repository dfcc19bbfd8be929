"""What one layer keeps between tokens, and layers that keep the same as one group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FULL, SLIDING, CHUNKED = "full", "sliding", "chunked"
LATENT, CROSS, STATE = "latent", "cross", "state"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCache:
    """The cache of one attention or recurrent block for one sequence.

    full, sliding, chunked: K and V of `num_kv_heads` heads for all tokens or the last `window`.
    latent (MLA, with a window or without): one row of `k_dim` = latent + rope values a token, no V; tensor-parallel ranks
    all keep the whole row. cross: K and V of `fixed_tokens` encoder tokens, whatever the length.
    state: `conv_values` in the compute dtype and `recurrent_values` in fp32, whatever the length.
    """

    kind: str
    num_heads: int = 0  # query heads; 0 for state
    num_kv_heads: int = 0
    k_dim: int = 0  # values of one key; for latent the whole row
    v_dim: int = 0
    latent_dim: int = 0  # kind latent: the first latent_dim values of the row
    window: int | None = None  # tokens
    fixed_tokens: int | None = None  # kind cross
    index_dim: int = 0  # values of one indexer key (DeepSeek sparse attention)
    index_topk: int | None = None  # tokens a step reads after the indexer has chosen
    conv_values: int = 0
    recurrent_values: int = 0
    draft: bool = False  # a multi-token-prediction layer: held only while drafting

    @property
    def values_per_token(self) -> int:
        return self.num_kv_heads * (self.k_dim + self.v_dim)

    @property
    def grows(self) -> bool:
        """Whether every further token takes more room: no window, no fixed length."""
        return self.kind in (FULL, LATENT) and self.window is None


@dataclass(frozen=True, slots=True, kw_only=True)
class KVCacheSpec:
    """Layers that keep the same; `layers` are their numbers in the model."""

    cache: LayerCache
    layers: tuple[int, ...]


Layers = Sequence[Sequence[LayerCache]]  # one entry a layer; a layer may hold no or two caches


def group_layers(layers: Layers) -> tuple[KVCacheSpec, ...]:
    """One spec for each distinct cache, in the order in which they first appear."""
    numbers: dict[LayerCache, list[int]] = {}
    for number, caches in enumerate(layers):
        for cache in caches:
            numbers.setdefault(cache, []).append(number)
    return tuple(KVCacheSpec(cache=c, layers=tuple(n)) for c, n in numbers.items())
