"""Requests that nothing happens beside: from lookup to eviction candidate in one go.

Between `begin` and `free` of such a request nobody else asks for a block, so the blocks that it
fills enter the cache without having been in a block table, and without a reference.
"""

from __future__ import annotations

from kvtool.cache.block_pool import Tokens
from kvtool.cache.eviction import BlockUse
from kvtool.cache.group_cache import GroupCache
from kvtool.cache.stats import CacheStats

Served = tuple[list[int], list[int]]  # hit, and filled behind them


class LonePath:
    """What begin, allocate and free do, with the same blocks found, filled and evicted."""

    def __init__(self, group: GroupCache, stats: CacheStats) -> None:
        self._group = group
        self._stats = stats

    def run(self, tokens: Tokens, namespace: bytes, priority: int, now: int) -> Served | None:
        """The request fits into the pool. None: somebody holds a block, or a block is partly
        filled, or hit in part, or its key is taken by other tokens. Nothing has changed then.
        """
        group, pool = self._group, self._group.pool
        size = pool.block_size
        if pool.num_idle < pool.num_blocks or len(tokens) % size:
            return None
        found, num_hit, collided = group.index.match(tokens, namespace)
        if collided or num_hit % size:
            return None
        self._stats.count_lookup(len(tokens), num_hit)
        last = found[-1] if found else None
        place = None if last is None else group.tree.hit_chain(last, priority, now)
        count = len(tokens) // size - len(found)
        filled = self._take(count, last)
        if filled:
            place = place or group.tree.top(namespace)
            rest, use = tokens[num_hit:].tobytes(), BlockUse(now, now, 0, priority)
            new = group.index.extend(place, namespace, filled, rest, use)
            self._stats.stored_blocks += len(new)
            last = new[-1] if new else last
            if len(new) < count:  # a key is taken by other tokens
                self._stats.collisions += 1
                pool.give_back(filled[len(new) :])
        if last is not None and group.tree.evictable_use(last):
            group.add_candidate(last)
        pool.note_held(len(found) + count)
        return found, filled

    def _take(self, count: int, last: int | None) -> list[int]:
        """`count` empty blocks; the last block that was found, and with it all in front of it,
        stays."""
        group, pool = self._group, self._group.pool
        missing = count - pool.num_free
        if missing > 0 and last is None:
            group.evict(missing)
        elif missing > 0 and last is not None:
            pool.pin(last)
            group.evict(missing)
            pool.unpin(last)
        return pool.take(count)
