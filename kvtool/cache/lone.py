"""Requests that nothing happens beside: from lookup to eviction candidate in one go.

Between `begin` and `free` of such a request nobody else asks for a block, so the blocks that it
fills enter the cache without having been in a block table, and without a reference.
"""

from __future__ import annotations

from kvtool.cache.block_pool import BlockIds, Tokens
from kvtool.cache.group_cache import GroupCache
from kvtool.cache.stats import CacheStats

Served = tuple[BlockIds, BlockIds]  # hit, and filled behind them


class LonePath:
    """What begin, allocate and free do, with the same blocks found, filled and evicted."""

    def __init__(self, group: GroupCache, stats: CacheStats) -> None:
        self._group = group
        self._stats = stats

    def run(self, tokens: Tokens, namespace: bytes, priority: int, now: int) -> Served | None:
        """The request fits into the pool. None: somebody holds a block, or a block is partly
        filled, or hit in part, or its key is taken by other tokens. Nothing has changed then.
        """
        pool, size = self._group.pool, self._group.pool.block_size
        if pool.num_idle < pool.num_blocks or len(tokens) % size:
            return None
        found, num_hit, collided = self._group.match(tokens, namespace)
        if collided or num_hit % size:
            return None
        self._stats.count_lookup(len(tokens), num_hit)
        last = int(found[-1]) if num_hit else None
        filled = self._take((len(tokens) - num_hit) // size, last)
        if num_hit:
            pool.hit(found, priority, now)
        if len(filled):
            last = self._enter(filled, tokens[num_hit:], last, namespace)
            pool.start_use(filled, now, priority)
        if last is not None and pool.is_evictable(last):
            self._group.add_candidate(last)
        pool.note_held(len(tokens) // size)
        return found, filled

    def _take(self, count: int, last: int | None) -> BlockIds:
        """`count` empty blocks; the last block that was found, and with it all in front of it,
        stays."""
        group, pool = self._group, self._group.pool
        if count > pool.num_free:
            if last is None:
                group.make_room(count)
            else:
                pool.pin(last)
                group.make_room(count)
                pool.unpin(last)
        return pool.take(count)

    def _enter(
        self, filled: BlockIds, tokens: Tokens, parent: int | None, namespace: bytes
    ) -> int | None:
        """Index them; the last block of the sequence that is cached."""
        new = self._group.index.insert(filled, tokens, parent, namespace).new
        self._stats.stored_blocks += len(new)
        if len(new) < len(filled):  # a key is taken by other tokens
            self._stats.collisions += 1
            self._group.pool.give_back(filled[len(new) :])
        return int(new[-1]) if len(new) else parent
