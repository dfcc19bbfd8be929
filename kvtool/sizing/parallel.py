"""What one rank of a tensor, pipeline and context parallel group holds.

Tensor parallel: KV heads are divided; with more ranks than heads they are replicated (Pope et al.
2022); MLA latents and indexer keys are whole on every rank. Pipeline parallel: a stage holds its
layers; the remainder goes to the stages before the last, as in vLLM. Context parallel: the tokens
of full and latent layers are divided.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvtool.errors import ConfigError
from kvtool.sizing.layers import LATENT, STATE, KVCacheSpec, LayerCache, group_layers
from kvtool.sizing.model_spec import ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    tp: int = 1
    pp: int = 1
    cp: int = 1

    @property
    def total(self) -> int:
        return self.tp * self.pp * self.cp


def stages(model: ModelSpec, ranks: Ranks) -> list[tuple[KVCacheSpec, ...]]:
    """One rank of each pipeline stage; `ConfigError` where the ranks do not divide the model."""
    main = len(model.layers) - model.num_draft_layers
    if ranks.pp > main:
        raise ConfigError(f"--pp {ranks.pp} is more than the {main} layers of the model.")
    found, start = [], 0
    for stage, size in enumerate(_stage_sizes(main, ranks.pp)):
        end = start + size if stage < ranks.pp - 1 else len(model.layers)
        layers = [
            tuple(shard(cache, ranks) for cache in caches) if start <= i < end else ()
            for i, caches in enumerate(model.layers)
        ]
        found.append(group_layers(layers))
        start = end
    return found


def _stage_sizes(layers: int, pp: int) -> list[int]:
    sizes = [layers // pp] * pp
    for back in range(2, layers % pp + 2):
        sizes[-back] += 1
    return sizes


def shard(cache: LayerCache, ranks: Ranks) -> LayerCache:
    if ranks.cp > 1 and not cache.grows:
        raise ConfigError(
            f"--cp {ranks.cp}: context parallelism divides full attention; this model has "
            f"{'windowed' if cache.window else cache.kind} layers."
        )
    if ranks.tp == 1:
        return cache
    if cache.kind == STATE:
        return replace(
            cache,
            conv_values=-(-cache.conv_values // ranks.tp),
            recurrent_values=-(-cache.recurrent_values // ranks.tp),
        )
    if cache.num_heads % ranks.tp:
        raise ConfigError(f"--tp {ranks.tp} does not divide {cache.num_heads} attention heads.")
    return replace(
        cache,
        num_heads=cache.num_heads // ranks.tp,
        num_kv_heads=1 if cache.kind == LATENT else _kv_heads(cache.num_kv_heads, ranks.tp),
    )


def _kv_heads(heads: int, tp: int) -> int:
    if heads % tp and tp % heads:
        raise ConfigError(f"--tp {tp} neither divides {heads} KV heads nor is a multiple of them.")
    return max(1, heads // tp)


def tokens_on_rank(tokens: int, ranks: Ranks) -> int:
    return -(-tokens // ranks.cp)
