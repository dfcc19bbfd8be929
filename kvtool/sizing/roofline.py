"""Is decode attention limited by memory? Arithmetic intensity against a GPU's ridge point.

Williams, Waterman and Patterson 2009. Per cached token and layer: 2·H_q·(D_k + D_v) FLOP for the
scores and the weighted sum; with absorbed MLA every query head works on the latent row.
"""

from __future__ import annotations

from collections.abc import Iterable

from kvtool.sizing.formats import KVFormat
from kvtool.sizing.gpus import GPU, GPUS
from kvtool.sizing.layers import STATE, KVCacheSpec
from kvtool.sizing.lengths import kept_tokens
from kvtool.sizing.reads import step_reads


def step_flops(spec: KVCacheSpec, tokens: int) -> int:
    """FLOP of attention over the cache for one new token of one sequence."""
    cache = spec.cache
    seen = kept_tokens(cache, tokens)
    if cache.index_topk is not None:
        seen = min(seen, cache.index_topk)
    values = cache.k_dim + (cache.latent_dim or cache.v_dim)
    return len(spec.layers) * seen * 2 * cache.num_heads * values


def arithmetic_intensity(specs: Iterable[KVCacheSpec], fmt: KVFormat, tokens: int) -> float | None:
    """FLOP per byte of the attention layers' decode step; None without attention layers."""
    attending = [s for s in specs if s.cache.kind != STATE and not s.cache.draft]
    read = sum(step_reads(s, fmt, tokens) for s in attending)
    return sum(step_flops(s, tokens) for s in attending) / read if read else None


def is_bandwidth_bound(intensity: float | None, device: GPU | None) -> bool | None:
    """Against `device`, or without one against every GPU of the table; None: they disagree."""
    if intensity is None:
        return None
    answers = {intensity < g.ridge_point for g in ([device] if device else GPUS.values())}
    return answers.pop() if len(answers) == 1 else None
