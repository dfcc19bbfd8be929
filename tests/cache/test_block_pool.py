from __future__ import annotations

import numpy as np
import pytest

from kvtool.cache.block_pool import BlockIds, BlockPool


def ids(*blocks: int) -> BlockIds:
    return np.array(blocks, dtype=np.int64)


def test_empty_blocks_are_handed_out_lowest_id_first() -> None:
    pool = BlockPool(8, 4)
    assert pool.allocate(4).tolist() == [0, 1, 2, 3]
    pool.give_back(pool.free(ids(2, 0)))
    assert pool.allocate(1).tolist() == [0]
    assert pool.allocate(3).tolist() == [2, 4, 5]
    pool.check_integrity(dict.fromkeys(range(6), 1))


def test_a_few_that_come_back_to_many_go_out_in_order_too() -> None:
    pool = BlockPool(64, 4)
    pool.allocate(40)
    pool.give_back(pool.free(np.arange(39, 9, -1)))
    pool.allocate(1)
    pool.give_back(pool.free(ids(3)))
    assert pool.allocate(3).tolist() == [3, 11, 12]


def test_a_cached_block_is_not_empty_until_it_is_given_back() -> None:
    pool = BlockPool(4, 2)
    blocks = pool.allocate(3)
    assert pool.free(blocks) == [0, 1, 2]
    pool.give_back([2])
    assert (pool.num_free, pool.num_unreferenced, pool.num_available) == (2, 2, 4)
    pool.check_integrity({}, cached=[0, 1])
    pool.give_back([1])
    pool.give_back([0])
    assert pool.num_free == 4
    pool.check_integrity({})


def test_touch_takes_cached_blocks_out_of_the_available_ones() -> None:
    pool = BlockPool(4, 2)
    blocks = pool.allocate(2)
    pool.free(blocks)
    pool.touch(blocks)
    pool.touch(ids(0))
    assert (pool.num_available, pool.num_held, pool.peak_held) == (2, 2, 2)
    pool.check_integrity({0: 2, 1: 1}, cached=[0, 1])
    assert pool.free(blocks) == [1], "somebody else holds block 0"
    assert pool.free(ids(0)) == [0]
    pool.check_integrity({}, cached=[0, 1])


def test_tokens_are_stored_where_somebody_asks_for_them() -> None:
    pool = BlockPool(4, 2)
    assert len(pool.tokens) == 0
    pool.keep_tokens()
    pool.store_tokens([2, 0], np.array([5, 6, 7], dtype=np.int32).tobytes())
    assert pool.tokens.tolist() == [[7, 0], [0, 0], [5, 6], [0, 0]]


def test_check_integrity_recomputes_the_counters() -> None:
    pool = BlockPool(4, 2)
    pool.allocate(2)
    pool.check_integrity({0: 1, 1: 1})
    with pytest.raises(AssertionError):
        pool.check_integrity({0: 1, 1: 1}, cached=[3])
    pool.ref_count[3] = 1
    with pytest.raises(AssertionError):
        pool.check_integrity({0: 1, 1: 1})
