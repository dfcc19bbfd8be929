"""Exact order of victims. Pools are full, so every new block names the next victim."""

from __future__ import annotations

import numpy as np
import pytest
from cache.walks import make_manager, run, tokens_from

from kvtool.cache.block_pool import BlockPool
from kvtool.cache.block_tree import BlockTree
from kvtool.cache.eviction import POLICIES, UNUSED, BlockUse
from kvtool.cache.eviction_heap import EvictionHeap
from kvtool.cache.manager import CacheManager
from kvtool.names import lookup

A, B, C, D = (tokens_from(100 * i, 8) for i in range(4))
PRIORITY = {0: 1, 100: 2, 200: 0, 300: 3}  # of A, B, C, D by first token

# A, B and C stored, A hit twice, C hit once, D stored: blocks A 0 1, B 2 3, C 4 5, D 6 7.
VICTIMS = {
    "lru": [3, 2, 1, 0, 5, 4, 7, 6],
    "lfu": [3, 2, 7, 6, 5, 4, 1, 0],
    "fifo": [1, 0, 3, 2, 5, 4, 7, 6],
    "slru": [3, 2, 7, 6, 1, 0, 5, 4],
    "priority": [5, 4, 1, 0, 3, 2, 7, 6],
}


def victims(manager: CacheManager, count: int) -> list[int]:
    """Blocks in the order in which a request that grows block by block gets them."""
    kv = manager.begin(tokens_from(9000, 1))
    order = []
    for end in range(1, count + 1):
        assert manager.allocate(kv, end * manager.config.block_size) == []
        order.append(kv.tables[0].last_block)
        manager.check_integrity([kv])
    manager.free(kv, tokens_from(0, 0))
    return order


@pytest.mark.parametrize("prefix_index", ["radix", "chain"])
@pytest.mark.parametrize("evict", POLICIES)
def test_victims(evict: str, prefix_index: str) -> None:
    manager = make_manager(8, evict=evict, prefix_index=prefix_index)
    for tokens in (A, B, C, A, A, C, D):
        kv = manager.begin(tokens, priority=PRIORITY[int(tokens[0])])
        assert manager.allocate(kv, 8) == []
        manager.free(kv, tokens)
    assert manager.num_free_blocks == 0
    assert victims(manager, 8) == VICTIMS[evict]
    assert manager.stats.evicted_blocks == 8


@pytest.mark.parametrize("evict", POLICIES)
def test_policies_are_pure_functions_of_the_use(evict: str) -> None:
    policy = lookup(POLICIES, evict, "eviction policy")
    use = BlockUse(last_use=5, created=2, hits=1, priority=0)
    assert policy(use) == policy(use) == policy(BlockUse(*use))
    assert isinstance(policy(use), tuple)


@pytest.mark.parametrize("evict", POLICIES)
@pytest.mark.parametrize("prefix_index", ["radix", "chain"])
def test_leaves_go_before_the_prefix_they_share(evict: str, prefix_index: str) -> None:
    """The oldest block is everybody's parent: it outlives all of them."""
    manager = make_manager(5, evict=evict, prefix_index=prefix_index)
    system = tokens_from(0, 4)
    for start in (100, 200, 300):
        run(manager, np.concatenate([system, tokens_from(start, 4)]))
    order = victims(manager, 5)
    assert order[0] == 4, "the empty block first"
    assert order[-1] == 0 and sorted(order[1:4]) == [1, 2, 3]


def test_equal_ranks_go_deepest_first_then_lowest_id() -> None:
    tree = BlockTree(BlockPool(6, 1))
    blocks = tree.pool.allocate(5)
    for start, tokens in ((0, [1, 2]), (2, [3, 4]), (4, [5])):
        ids = list(range(start, start + len(tokens)))
        tree.append(tree.top(b""), b"", ids, np.array(tokens, dtype=np.int32).tobytes(), UNUSED)
    heap = EvictionHeap(tree, lambda use: (0,))
    for block in tree.pool.free(blocks):
        if tree.evictable_use(block):
            heap.push(block)
    order = []
    for limit in (1, 9, 1, 9):
        order.append(heap.pop_run(limit))
        parent = tree.remove(order[-1])
        if parent is not None:
            heap.push(parent)
    assert order == [[1], [3], [0], [2]]
    assert heap.pop() == 4


def test_stale_entries_do_not_pile_up() -> None:
    manager = make_manager(4)
    for _ in range(3000):
        run(manager, A)
    assert len(manager.groups[0]._heap._heap) <= 1024
    manager.check_integrity()


@pytest.mark.report("S28")
@pytest.mark.parametrize("prefix_index", ["radix", "chain"])
def test_short_requests_run_for_ever_in_a_small_pool(prefix_index: str) -> None:
    manager = make_manager(10, prefix_index=prefix_index)
    for i in range(50):
        run(manager, tokens_from(100 * i, 9))
        manager.check_integrity()
        assert manager.groups[0].pool.num_held == 0
        assert manager.num_available_blocks == 10
    assert manager.stats.evicted_blocks > 0


@pytest.mark.report("S25")
@pytest.mark.parametrize("prefix_index", ["radix", "chain"])
def test_a_pinned_prefix_survives_the_eviction_of_everything_else(prefix_index: str) -> None:
    manager = make_manager(6, prefix_index=prefix_index)
    run(manager, A)
    held = manager.begin(A)
    other = manager.begin(B)
    assert manager.allocate(other, 16) == []
    assert manager.allocate(other, 17) is None, "only pinned blocks are left"
    assert manager.match(A) == 8
    manager.check_integrity([held, other])
    manager.free(held, A)
    assert manager.allocate(other, 24) == []
    assert manager.match(A) == 0
    manager.check_integrity([other])
