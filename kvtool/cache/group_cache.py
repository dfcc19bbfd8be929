"""The cache of one layer group: its blocks, their prefix index and who is evicted next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple

import numpy as np

from kvtool.cache.block_pool import BlockIds, BlockPool, Tokens
from kvtool.cache.block_table import BlockTable
from kvtool.cache.events import EventLog
from kvtool.cache.eviction import EvictionPolicy
from kvtool.cache.eviction_heap import EvictionHeap
from kvtool.cache.index import Match, PrefixIndex
from kvtool.cache.sequence import BlockCopy, SequenceKV
from kvtool.cache.stats import CacheStats

IndexFactory = Callable[[BlockPool], PrefixIndex]


class Tail(Enum):
    """What happens to a partly filled last block that is about to be written."""

    KEEP = "keep"  # it is private, or there is none
    TAKE_OVER = "take over"  # leaves the index and is continued in place
    COPY = "copy"  # copy-on-write


class Growth(NamedTuple):
    num_blocks: int
    tail: Tail


class GroupCache:
    def __init__(
        self,
        group_id: int,
        pool: BlockPool,
        index: IndexFactory,
        policy: EvictionPolicy,
        stats: CacheStats,
        events: EventLog | None,
    ) -> None:
        self.pool = pool
        self.index = index(pool)
        self._group_id = group_id
        self._heap = EvictionHeap(pool, policy)
        self._stats = stats
        self._events = events

    def match(self, tokens: Tokens, namespace: bytes) -> Match:
        return self.index.match(tokens, namespace)

    def begin(self, kv: SequenceKV, match: Match, num_tokens: int) -> None:
        """Pin the blocks of the first `num_tokens` matched tokens and put them in the table."""
        size = self.pool.block_size
        blocks = match.block_ids[: -(-num_tokens // size)]
        if num_tokens:
            self.pool.touch(blocks)
            kv.tables[self._group_id].extend(blocks, num_tokens, size)

    def count_hits(self, kv: SequenceKV) -> None:
        """The blocks taken from the cache are used now; the table holds nothing else yet."""
        table = kv.tables[self._group_id]
        if table.num_entries:
            self.pool.hit(table.ids(0, table.num_entries), kv.priority)

    def cut(self, kv: SequenceKV, num_blocks: int) -> None:
        """Unpin what was taken from the cache behind the first `num_blocks` full blocks."""
        table = kv.tables[self._group_id]
        if table.num_entries > num_blocks:
            self.let_go(table.ids(num_blocks, table.num_entries))
        table.cut(num_blocks, self.pool.block_size)

    def growth(self, table: BlockTable, num_tokens: int) -> Growth:
        """What covering [0, num_tokens) takes. Changes nothing."""
        num_blocks = -(-num_tokens // self.pool.block_size) - table.num_entries
        filled = table.num_tokens % self.pool.block_size
        tail = self._tail(table.last_block, filled) if filled else Tail.KEEP
        return Growth(num_blocks + (tail is Tail.COPY), tail)

    def _tail(self, block: int, filled: int) -> Tail:
        pool = self.pool
        cached, shared = pool.is_cached(block), pool.ref_count_of[block] > 1
        if not cached and not shared:
            return Tail.KEEP
        # A shorter match, or a block others follow, must stay what it is.
        if shared or pool.num_tokens_of[block] != filled:
            return Tail.COPY
        return Tail.TAKE_OVER

    def grow(self, kv: SequenceKV, num_tokens: int, growth: Growth) -> BlockCopy | None:
        """Cover [0, num_tokens); the blocks must be available."""
        table = kv.tables[self._group_id]
        last, filled = table.num_entries - 1, table.num_tokens % self.pool.block_size
        if growth.tail is Tail.TAKE_OVER:
            self._remove(table.last_block)
            self._stats.taken_over_blocks += 1
        if growth.num_blocks == 0:
            table.extend([], num_tokens, self.pool.block_size)
            return None
        blocks = self._allocate(growth.num_blocks)
        copy = None
        if growth.tail is Tail.COPY:
            source, target, blocks = table.last_block, int(blocks[0]), blocks[1:]
            copy = BlockCopy(self._group_id, source, target, filled)
            kv.copy_sources[self._group_id].append(source)
            table.replace_block(last, target)
            self._stats.copied_blocks += 1
        table.extend(blocks, num_tokens, self.pool.block_size)
        return copy

    def release_copy_sources(self, kv: SequenceKV) -> None:
        sources = kv.copy_sources[self._group_id]
        if sources:
            self.let_go(np.array(sources))
            sources.clear()

    def commit(self, kv: SequenceKV, tokens: Tokens, now: int) -> int:
        """Index the full blocks of `tokens`; returns how many leading blocks are indexed."""
        size, first = self.pool.block_size, kv.num_committed_blocks
        table = kv.tables[self._group_id]
        own = table.ids(first, len(tokens) // size)
        parent = table.block_id(first - 1) if first else None
        tokens = tokens[first * size : (first + len(own)) * size]
        found, new = self.index.insert(own, tokens, parent, kv.namespace)
        if len(found):
            self._replace_twins(table, first, own[: len(found)], found)
        num_indexed = len(found) + len(new)
        if len(new):
            self.pool.start_use(new, now, kv.priority)
            self._stats.stored_blocks += len(new)
            if self._events:
                before = int(found[-1]) if len(found) else parent
                run = tokens[len(found) * size : num_indexed * size]
                self._events.stored(new.tolist(), run, before, kv.namespace)
        self._stats.collisions += num_indexed < len(own)
        return first + num_indexed

    def _replace_twins(
        self, table: BlockTable, first: int, own: BlockIds, indexed: BlockIds
    ) -> None:
        """Entries from `first` on continue on the blocks that were indexed earlier."""
        different = np.flatnonzero(own != indexed)
        if not len(different):
            return
        self.pool.touch(indexed[different])
        self.let_go(own[different])
        for position in different.tolist():
            table.replace_block(first + position, int(indexed[position]))
        self._stats.duplicate_blocks += len(different)

    def commit_partial(self, kv: SequenceKV, tokens: Tokens, now: int) -> None:
        """Index the last block of `tokens` as a leaf if it is partly filled and private."""
        size, position = self.pool.block_size, kv.num_committed_blocks
        rest = tokens[position * size :]
        if not 0 < len(rest) < size:
            return
        table = kv.tables[self._group_id]
        block, parent = table.block_id(position), table.block_id(position - 1) if position else None
        if self.pool.is_cached(block) or self.pool.ref_count_of[block] > 1:
            return
        if self.index.insert_partial(block, rest, parent, kv.namespace):
            self.pool.start_use(np.array([block]), now, kv.priority)
            self._stats.stored_blocks += 1

    def release(self, kv: SequenceKV, now: int) -> None:
        """Drop everything `kv` holds. It used its blocks until now, unless it never got slots."""
        self.release_copy_sources(kv)
        table = kv.tables[self._group_id]
        if table.num_entries:
            blocks = table.ids(0, table.num_entries)
            if kv.query is None:
                self.pool.last_use[blocks] = now
            self.let_go(blocks)
            table.clear()

    def clear(self) -> None:
        """Forget all blocks without an event for each."""
        if self._events:
            self._events.clear()
        self._evict(self.pool.num_unreferenced)

    def let_go(self, blocks: BlockIds) -> None:
        """Drop one reference of each."""
        for block in self.pool.free(blocks):
            self._heap.push(block)

    def _allocate(self, count: int) -> BlockIds:
        missing = count - self.pool.num_free
        if missing > 0:
            self._evict(missing)
            self._stats.evicted_blocks += missing
        return self.pool.allocate(count)

    def _evict(self, count: int) -> None:
        """Leaves first. A victim's parent joins the candidates when its last child is gone."""
        parent: int | None = None
        for _ in range(count):
            victim = self._heap.pop() if parent is None else self._heap.push_pop(parent)
            parent = self._remove(victim)
        if parent is not None:
            self._heap.push(parent)

    def _remove(self, block: int) -> int | None:
        """Take a leaf out of the index; its parent, if that may be evicted now."""
        if self._events:
            self._events.removed(block)
        return self.index.remove(block)

    def check_integrity(self, live: Iterable[SequenceKV], copied: Counter[int]) -> None:
        """copied: references of transfers."""
        holders = Counter(copied)
        for kv in live:
            table = kv.tables[self._group_id]
            table.check_integrity()
            holders.update(table.block_ids)
            holders.update(kv.copy_sources[self._group_id])
            committed = np.array(table.block_ids[: kv.num_committed_blocks], dtype=np.int64)
            assert (self.pool.num_tokens[committed] == self.pool.block_size).all()
            assert (self.pool.parent[committed[1:]] == committed[:-1]).all()
        self.pool.check_integrity(holders)
        self.index.check_integrity()
        self._heap.check_integrity()
