"""The cache of one layer group: its blocks, their prefix index and who is evicted next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

from kvtool.cache.block_pool import BlockIds, BlockPool, Tokens
from kvtool.cache.block_table import BlockTable
from kvtool.cache.block_tree import BlockTree
from kvtool.cache.events import EventLog
from kvtool.cache.eviction import EvictionPolicy
from kvtool.cache.eviction_heap import EvictionHeap
from kvtool.cache.gaps import num_blocks_between
from kvtool.cache.growth import Growth, Tail
from kvtool.cache.index import Match, PrefixIndex
from kvtool.cache.section import check_sections
from kvtool.cache.sequence import BlockCopy, SequenceKV
from kvtool.cache.stats import CacheStats
from kvtool.reuse.content_index import ContentIndex

IndexFactory = Callable[[BlockTree], PrefixIndex]


class GroupCache:
    """content: finds the same blocks by their text alone; only where shifted reuse asks for it."""

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
        self.tree = BlockTree(pool)
        self.index = index(self.tree)
        self.content: ContentIndex | None = None
        self._group_id = group_id
        self._heap = EvictionHeap(self.tree, policy)
        self._stats = stats
        self._events = events

    def match(self, tokens: Tokens, namespace: bytes) -> Match:
        return self.index.match(tokens, namespace)

    def begin(self, kv: SequenceKV, match: Match, num_tokens: int) -> None:
        """Pin the blocks of the first `num_tokens` matched tokens and put them in the table."""
        size = self.pool.block_size
        if num_tokens:
            blocks = np.array(match.block_ids[: -(-num_tokens // size)])
            self.pool.touch(blocks)
            kv.tables[self._group_id].extend(blocks, num_tokens, size)

    def count_hits(self, kv: SequenceKV) -> None:
        """The blocks taken from the cache are used now; the table holds nothing else yet."""
        used = [kv.tables[self._group_id].own_ids()]
        used += [np.array(run.blocks) for run in kv.used_runs(self._group_id)]
        for blocks in used:
            if len(blocks):
                self.tree.hit(blocks.tolist(), kv.priority)
            if self.content is not None:
                full = [self.tree.num_tokens(b) == self.pool.block_size for b in blocks.tolist()]
                self.content.touch(blocks[np.array(full, dtype=np.bool_)])

    def cut(self, kv: SequenceKV, num_blocks: int) -> None:
        """Unpin what was taken from the cache behind the first `num_blocks` full blocks."""
        table = kv.tables[self._group_id]
        if table.num_entries > num_blocks:
            self.let_go(table.ids(num_blocks, table.num_entries))
        table.cut(num_blocks, self.pool.block_size)

    def chain(self, block: int) -> BlockIds:
        """The cached blocks from the first of its sequence to this one."""
        return np.array(self.tree.chain(block), dtype=np.int64)

    def num_missing(self, kv: SequenceKV, num_tokens: int) -> int:
        """Own blocks that covering [0, num_tokens) takes, without a copy of the last one."""
        table, size = kv.tables[self._group_id], self.pool.block_size
        runs, room = kv.runs(self._group_id), -table.num_filled(size) % size
        return num_blocks_between(table.num_tokens, num_tokens, runs, size, room)

    def growth(self, kv: SequenceKV, num_tokens: int) -> Growth:
        """What covering [0, num_tokens) takes. Changes nothing."""
        table, missing = kv.tables[self._group_id], self.num_missing(kv, num_tokens)
        filled = table.num_filled(self.pool.block_size)
        if not filled or any(run.start == table.num_tokens for run in kv.runs(self._group_id)):
            return Growth(missing, Tail.KEEP)
        tail = self._tail(table.last_block, filled)
        return Growth(missing + (tail is Tail.COPY), tail)

    def _tail(self, block: int, filled: int) -> Tail:
        pool = self.pool
        cached, shared = self.tree.is_cached(block), pool.ref_count_of[block] > 1
        if not cached and not shared:
            return Tail.KEEP
        # A shorter match, or a block others follow, must stay what it is.
        if shared or self.tree.num_tokens(block) != filled:
            return Tail.COPY
        return Tail.TAKE_OVER

    def grow(self, kv: SequenceKV, num_tokens: int, growth: Growth) -> BlockCopy | None:
        """Cover [0, num_tokens); the blocks must be available."""
        table = kv.tables[self._group_id]
        last, filled = table.num_entries - 1, table.num_filled(self.pool.block_size)
        if growth.tail is Tail.TAKE_OVER:
            self._remove(table.last_block)
            self._stats.taken_over_blocks += 1
        if growth.num_blocks == 0:
            table.extend([], num_tokens, self.pool.block_size)
            return None
        blocks = self.allocate(growth.num_blocks)
        copy = None
        if growth.tail is Tail.COPY:
            source, target, blocks = table.last_block, int(blocks[0]), blocks[1:]
            copy = BlockCopy(self._group_id, source, target, filled)
            kv.copy_sources[self._group_id].append(source)
            table.replace_block(last, target)
            self._stats.copied_blocks += 1
        for run in kv.runs(self._group_id):
            if table.num_tokens <= run.start < num_tokens:
                blocks = self._extend(table, run.start, blocks)
                table.add_run(run, self.pool.block_size)
        table.extend(blocks, num_tokens, self.pool.block_size)
        return copy

    def _extend(self, table: BlockTable, num_tokens: int, blocks: BlockIds) -> BlockIds:
        """Cover [0, num_tokens) with the first of these own blocks; the rest of them."""
        size = self.pool.block_size
        room = -table.num_filled(size) % size
        count = num_blocks_between(table.num_tokens, num_tokens, (), size, room)
        table.extend(blocks[:count], num_tokens, size)
        return blocks[count:]

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
        use = kv.use(now)
        found, new = self.index.insert(own.tolist(), tokens, parent, kv.namespace, use)
        if found:
            self._replace_twins(table, first, own[: len(found)], np.array(found))
        num_indexed = len(found) + len(new)
        if new:
            self._stats.stored_blocks += len(new)
            if self.content is not None:
                self.content.add(np.array(new), kv.namespace)
            if self._events:
                before = found[-1] if found else parent
                run = tokens[len(found) * size : num_indexed * size]
                self._events.stored(new, run, before, kv.namespace)
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
        if not 0 < len(tokens) - position * size < size:
            return
        rest = tokens[position * size :]
        table = kv.tables[self._group_id]
        block, parent = table.block_id(position), table.block_id(position - 1) if position else None
        if self.tree.is_cached(block) or self.pool.ref_count_of[block] > 1:
            return
        if self.index.insert_partial(block, rest, parent, kv.namespace, kv.use(now)):
            self._stats.stored_blocks += 1
            if self.content is not None:
                self.content.add_partial(block, kv.namespace)

    def announce_runs(self, kv: SequenceKV) -> None:
        """An event for each run, of what is served of it."""
        if self._events and kv.shift is not None:
            for section in kv.shift.sections:
                run = section.runs[self._group_id]
                self._events.reused(run, kv.shift.origin_at(run.start))

    def release(self, kv: SequenceKV, now: int) -> None:
        """Drop everything `kv` holds. It used its blocks until now, unless it never got slots."""
        self.release_copy_sources(kv)
        table = kv.tables[self._group_id]
        held = [table.own_ids(), *([] if kv.shift is None else [kv.shift.pins[self._group_id]])]
        for blocks in held:
            if kv.query is None:
                self.tree.end_use(blocks.tolist(), now)
            self.let_go(blocks)
        table.clear()

    def clear(self) -> None:
        """Forget all blocks without an event for each."""
        if self._events:
            self._events.clear()
        self._evict(self.pool.num_unreferenced)

    def let_go(self, blocks: BlockIds, *, weak: bool = False) -> None:
        """Drop one reference of each."""
        leaves, others = self.tree.sort_out(self.pool.free(blocks, weak=weak))
        if others:
            self.pool.give_back(others)
        for leaf in leaves:
            self.add_candidate(leaf)

    def allocate(self, count: int) -> BlockIds:
        """Blocks with one reference each; as many must be empty, or cached and held by nobody."""
        self.make_room(count)
        return self.pool.allocate(count)

    def make_room(self, count: int) -> None:
        """Evict until so many blocks are empty."""
        missing = count - self.pool.num_free
        if missing > 0:
            self.evict(missing)

    def evict(self, count: int) -> None:
        """So many blocks, counted."""
        self._stats.evicted_blocks += count
        self._evict(count)

    def add_candidate(self, block: int) -> None:
        """It may be evicted from now on."""
        self._heap.push(block)

    def _evict(self, count: int) -> None:
        """Leaves first. A victim's parent joins the candidates when its last child is gone."""
        while count:
            victims = self._heap.pop_run(count)
            count -= len(victims)
            if self._events or self.content is not None:
                self._forget(victims)
            parent = self.index.remove(victims)
            if parent is not None:
                self._heap.push(parent)

    def _remove(self, block: int) -> int | None:
        """Take a leaf out of the index; its parent, if that may be evicted now."""
        self._forget([block])
        return self.index.remove([block])

    def _forget(self, blocks: list[int]) -> None:
        """What others than the index know of them; a leaf, then each the parent of the last."""
        if self._events:
            for block in blocks:
                self._events.removed(block)
        if self.content is not None:
            for block in blocks:
                self.content.remove(block)

    def check_integrity(
        self, live: Iterable[SequenceKV], copied: Counter[int], weak: Counter[int]
    ) -> None:
        """copied: references of transfers."""
        holders = Counter(copied)
        for kv in live:
            table = kv.tables[self._group_id]
            table.check_integrity(self.pool.block_size)
            holders.update(table.own_ids().tolist())
            holders.update(kv.copy_sources[self._group_id])
            if kv.shift is not None:
                holders.update(kv.shift.pins[self._group_id].tolist())
                check_sections(self.tree, kv.shift.sections, self._group_id)
            holders.update(kv.incoming_blocks(self._group_id))
            committed = table.ids(0, kv.num_committed_blocks)
            if len(committed):
                assert committed.tolist() == self.tree.chain(int(committed[-1]))
                assert self.tree.num_tokens(int(committed[-1])) == self.pool.block_size
        self.pool.check_integrity(holders, weak, self.tree.blocks())
        self.index.check_integrity()
        if self.content is not None:
            self.content.check_integrity()
        self._heap.check_integrity()
