"""Where the cached tokens of a request came from."""

from __future__ import annotations

from kvtool.cache.manager import CacheManager
from kvtool.cache.sequence import SequenceKV
from kvtool.cache.shifted import sources
from kvtool.engine.request import Request

DEVICE = "device"


def count_admission(request: Request, manager: CacheManager) -> None:
    """Once a request, however often it is preempted or its prompt is cut; after its first step, so
    that what could not be loaded does not count."""
    assert request.kv is not None
    request.admitted = True
    request.num_cached_tokens = request.num_computed_tokens
    request.cached_by_tier = cached_by_tier(request.kv, request.num_cached_tokens)
    if request.kv.num_cached == request.num_prompt_tokens:
        manager.stats.count_full_hit()
    if request.kv.shift is not None:
        request.sources = sources(request.kv.shift.plan)
        request.moved_runs = request.kv.shift.runs
        manager.count_runs(request.kv)


def cached_by_tier(kv: SequenceKV, num_tokens: int) -> dict[str, int]:
    """The first `num_tokens` cached tokens: those in the pool, then those of `kv.load`, by tier.

    Asked while the load is known: in the step that it is part of, or before anything was loaded.
    """
    loaded = kv.load.blocks if kv.load is not None else ()
    spans = [(DEVICE, kv.num_cached - sum(block.num_tokens for block in loaded))]
    spans += [(block.tier, block.num_tokens) for block in loaded]
    by_tier: dict[str, int] = {}
    for tier, length in spans:
        length = min(length, num_tokens)
        num_tokens -= length
        if length:
            by_tier[tier] = by_tier.get(tier, 0) + length
    return by_tier
