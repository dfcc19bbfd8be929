"""Every block of the pool is in the line that says where they are."""

from __future__ import annotations

import pytest

from kvtool.cli.cache_report import blocks_line

BLOCKS = {"num_blocks": 40, "block_size": 4, "peak_blocks": 10}
EFFECTIVE = {"kv_memory": 2**20, "kv_bytes_per_token": 6554}


@pytest.mark.parametrize(
    ("cached", "free", "says"),
    [(10, 30, "now 10 cached, 30 free"), (2, 30, "now 2 cached, 30 free, 8 being saved")],
)
def test_blocks_add_up(cached: int, free: int, says: str) -> None:
    line = blocks_line({**BLOCKS, "cached_blocks": cached, "free_blocks": free}, EFFECTIVE)
    assert line.endswith(says)
