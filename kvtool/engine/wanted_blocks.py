"""How many blocks a request takes of each layer group for the tokens it has."""

from __future__ import annotations

from kvtool.cache.manager import CacheManager
from kvtool.engine.admission import num_blocks_for
from kvtool.engine.request import Request


def num_expected_blocks(
    request: Request, num_cached_tokens: int, may_shift: bool, block_size: int
) -> int:
    """Before anything is pinned. What runs save is known from the last time it was tried."""
    if may_shift:
        return request.num_wanted_blocks or 0
    needed = num_blocks_for(request.num_tokens, block_size)
    return needed - num_cached_tokens // block_size


def num_missing_blocks(request: Request, manager: CacheManager) -> int:
    """Of an admitted one."""
    assert request.kv is not None
    return manager.num_missing_blocks(request.kv, request.num_tokens)


def num_wanted_blocks(request: Request, manager: CacheManager) -> int:
    """With a copy where it goes on in the middle of a cached block, and with the blocks that are
    reserved for what is loaded to be moved."""
    assert request.kv is not None
    may_copy = request.kv.tables[0].num_filled(manager.config.block_size) > 0
    return num_missing_blocks(request, manager) + may_copy + request.kv.num_incoming_blocks
