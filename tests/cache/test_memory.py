"""A million blocks at no more than 300 bytes each, index and heap included."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from cache.walks import make_manager, run

from kvtool.cache.index import INDEXES

# A million / 32: hash maps, which grow by doubling, are filled to the same degree.
NUM_BLOCKS = 31_250
BLOCKS_PER_REQUEST = 100
MAX_BYTES_PER_BLOCK = 300


@pytest.mark.parametrize("prefix_index", INDEXES)
def test_bytes_per_block(prefix_index: str) -> None:
    """Filled once and then turned over: maps with deletions are larger than fresh ones."""
    rng = np.random.default_rng(0)
    tracemalloc.start()
    manager = make_manager(NUM_BLOCKS, 16, prefix_index=prefix_index)
    for _ in range(2 * NUM_BLOCKS // BLOCKS_PER_REQUEST + 1):
        run(manager, rng.integers(0, 50_000, BLOCKS_PER_REQUEST * 16, dtype=np.int32))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert manager.num_free_blocks == 0
    print(f"{prefix_index}: {size / NUM_BLOCKS:.0f} bytes a block")
    assert size / NUM_BLOCKS <= MAX_BYTES_PER_BLOCK
