"""A model as the calculator sees it: what each layer keeps, and what had to be assumed."""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.sizing.layers import KVCacheSpec, LayerCache, group_layers


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """`layers[i]` are the caches of layer i; draft layers come after the main ones."""

    name: str
    model_type: str | None
    layers: tuple[tuple[LayerCache, ...], ...]
    max_model_len: int | None  # longest context the model was made for, in tokens
    weight_bytes: int | None  # all ranks together; None: not known from this source
    assumptions: tuple[str, ...] = ()

    @property
    def groups(self) -> tuple[KVCacheSpec, ...]:
        return group_layers(self.layers)

    @property
    def num_draft_layers(self) -> int:
        return sum(any(c.draft for c in caches) for caches in self.layers)
