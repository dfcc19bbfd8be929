"""Two prompts with a common beginning that arrive together should compute it once.

vLLM and others let both compute and keep both copies. Here the later one waits while a running
request computes, or loads, blocks it needs next, and hits them afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable

from kvtool.cache.common_prefix import common_prefix
from kvtool.config import SchedulerConfig
from kvtool.engine.chunking import num_shareable_tokens
from kvtool.engine.request import Request


def awaits_twin(
    request: Request,
    num_cached_tokens: int,
    running: Iterable[Request],
    config: SchedulerConfig,
    granule: int,
) -> bool:
    """Whether a running request is about to fill blocks that save `request` at least one granule
    (block, or chunk in deterministic mode) beyond what it would hit now.

    The wait ends: the other's blocks are filled, or it leaves `running`.
    """
    wanted = request.tokens[: num_shareable_tokens(request, request.num_tokens, config)]
    for other in running:
        coming = num_shareable_tokens(other, num_exact_tokens(other), config) // granule * granule
        filled = _num_filled_tokens(other)
        if coming <= filled or other.namespace != request.namespace:
            continue
        coming = common_prefix(wanted, other.tokens[:coming]) // granule * granule
        if coming > filled and coming >= num_cached_tokens + granule:
            return True
    return False


def num_exact_tokens(request: Request) -> int:
    """Its leading tokens whose KV others may hit: none behind a moved run."""
    num_exact = None if request.kv is None else request.kv.num_exact
    return request.num_tokens if num_exact is None else num_exact


def _num_filled_tokens(request: Request) -> int:
    """What is loaded in the coming step counts as computed, but is in no block yet."""
    kv = request.kv
    if kv is None or kv.load is None:
        return request.num_computed_tokens
    return kv.num_cached - sum(block.num_tokens for block in kv.load.blocks)
