"""Where the cached tokens of a request came from."""

from __future__ import annotations

from kvtool.cache.sequence import SequenceKV

DEVICE = "device"


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
