from __future__ import annotations

import numpy as np
import pytest

from kvtool.cache.block_pool import BlockIds, BlockPool


def ids(*blocks: int) -> BlockIds:
    return np.array(blocks, dtype=np.int64)


def test_empty_blocks_are_handed_out_lowest_id_first() -> None:
    pool = BlockPool(8, 4)
    assert pool.allocate(4).tolist() == [0, 1, 2, 3]
    pool.free(ids(2, 0))
    assert pool.allocate(1).tolist() == [0]
    assert pool.allocate(3).tolist() == [2, 4, 5]
    pool.check_integrity(dict.fromkeys(range(6), 1))


def test_a_cached_block_keeps_its_contents_until_it_is_forgotten() -> None:
    pool = BlockPool(4, 2)
    blocks = pool.allocate(2)
    pool.store(blocks, np.array([[5, 6], [7, 8]], dtype=np.int32), parent=-1)
    assert pool.free(blocks) == [1], "the parent waits for its child"
    assert (pool.num_free, pool.num_unreferenced, pool.num_available) == (2, 2, 4)
    assert pool.tokens[:2].tolist() == [[5, 6], [7, 8]]
    assert pool.home[:2].tolist() == [0, 2]
    assert pool.forget(1) == 0
    assert pool.forget(0) is None
    assert pool.num_free == 4
    pool.check_integrity({})


def test_touch_takes_cached_blocks_out_of_the_available_ones() -> None:
    pool = BlockPool(4, 2)
    blocks = pool.allocate(2)
    pool.store(blocks, np.array([[5, 6], [7, 8]], dtype=np.int32), parent=-1)
    pool.free(blocks)
    pool.touch(blocks)
    pool.touch(ids(0))
    assert (pool.num_available, pool.num_held, pool.peak_held) == (2, 2, 2)
    pool.check_integrity({0: 2, 1: 1})
    assert pool.free(blocks) == [1]
    assert pool.free(ids(0)) == []
    pool.check_integrity({})


@pytest.mark.parametrize("column", ["ref_count", "num_tokens"])
def test_check_integrity_recomputes_the_counters(column: str) -> None:
    pool = BlockPool(4, 2)
    pool.allocate(2)
    getattr(pool, column)[3] = 1
    with pytest.raises(AssertionError):
        pool.check_integrity({0: 1, 1: 1})
