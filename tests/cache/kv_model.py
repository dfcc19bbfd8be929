"""A plain model of the KV memory behind a CacheManager: which prefix each slot was written for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from cache.walks import cached_texts, uses_of

from kvtool.cache.manager import BlockCopy, CacheManager, SequenceKV, Tokens


@dataclass(eq=False)
class Live:
    """A request: its tokens, how many of them are computed, and what it holds."""

    tokens: Tokens
    kv: SequenceKV
    computed: int


class Model:
    """The KV memory as a device would have it: per group and slot, the prefix written there.

    A slot holds the tuple (namespace, all tokens up to its own), which is what its KV depends on.
    """

    def __init__(self, manager: CacheManager, block_size: int) -> None:
        self.manager = manager
        self.block_size = block_size
        self.memory: list[dict[int, tuple[bytes, bytes]]] = [{} for _ in manager.groups]
        self.live: list[Live] = []

    def check(self) -> None:
        self.manager.check_integrity([request.kv for request in self.live])
        for request in self.live:
            self.check_readable(request)

    def check_readable(self, request: Live) -> None:
        """Every computed position reads KV of exactly this namespace and prefix."""
        for group, table in enumerate(request.kv.tables):
            slots = table.slots(np.arange(request.computed), self.block_size).tolist()
            for position, slot in enumerate(slots):
                assert self.memory[group][slot] == self.key(request, position)

    def key(self, request: Live, position: int) -> tuple[bytes, bytes]:
        return request.kv.namespace, request.tokens[: position + 1].tobytes()

    def copy(self, copies: list[BlockCopy]) -> None:
        for group, source, target, num_slots in copies:
            for i in range(num_slots):
                memory = self.memory[group]
                memory[target * self.block_size + i] = memory[source * self.block_size + i]

    def compute(self, request: Live, end: int) -> None:
        """Write positions [computed, end): never a slot that anyone else reads."""
        for group, table in enumerate(request.kv.tables):
            start = max(request.computed, request.kv.num_cached)
            slots = table.slots(np.arange(start, max(start, end)), self.block_size).tolist()
            foreign = set()
            for other in self.live:
                if other is not request:
                    foreign |= set(other.kv.tables[group].block_ids)
            for position, slot in enumerate(slots, start):
                assert slot // self.block_size not in foreign
                self.memory[group][slot] = self.key(request, position)
        request.computed = max(request.computed, end)

    def begin(self, tokens: Tokens, namespace: bytes, align: int) -> None:
        expected = self.manager.match(tokens, namespace)
        kv = self.manager.begin(tokens, namespace, align=align)
        if align == 1:
            assert kv.num_cached == expected
        else:
            assert kv.num_cached == min(expected, len(tokens) - 1) // align * align
        self.live.append(Live(tokens, kv, kv.num_cached))

    def allocate(self, request: Live, end: int) -> None:
        before = snapshot(self.manager, request.kv)
        missing = self.manager.num_available_blocks
        copies = self.manager.allocate(request.kv, end)
        if copies is None:
            assert snapshot(self.manager, request.kv) == before
            assert blocks_needed(request.kv, end, self.block_size) + 1 > missing
            return
        assert request.kv.num_tokens == max(end, request.kv.num_tokens)
        self.copy(copies)
        self.compute(request, end)
        self.manager.commit(request.kv, request.tokens[:end])

    def finish(self, request: Live, computed: int) -> None:
        self.live.remove(request)
        self.manager.free(request.kv, request.tokens[:computed])


def blocks_needed(kv: SequenceKV, num_tokens: int, block_size: int) -> int:
    return -(-num_tokens // block_size) - kv.tables[0].num_entries


def snapshot(manager: CacheManager, kv: SequenceKV) -> object:
    pools = [group.pool for group in manager.groups]
    return (
        [pool.ref_count.tolist() for pool in pools],
        [cached_texts(group.tree) for group in manager.groups],
        [uses_of(group.tree) for group in manager.groups],
        [(pool.num_free, pool.num_unreferenced, pool.peak_held) for pool in pools],
        [table.entries.tolist() for table in kv.tables],
        [list(sources) for sources in kv.copy_sources],
        manager.stats.as_dict(),
    )
