"""Options that the machine or the model bounds: threads, block size, pool."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import tiny

from kvtool.config import EngineConfig
from kvtool.errors import ConfigError
from kvtool.models.hf import PagedModel
from kvtool.runtime import pool_size
from kvtool.runtime.free_memory import cgroup_memory
from kvtool.runtime.pool_size import num_blocks_of_pool
from kvtool.runtime.threads import set_threads

LEN = 64
BLOCK = 16
BYTES = 4 * 2 * 2 * 16 * 4  # of a token: layers, K and V, KV heads, head_dim, float32


@pytest.fixture(scope="module")
def model() -> PagedModel:
    return PagedModel(tiny.build("llama"))


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda size: monkeypatch.setattr(pool_size, "_free_memory", lambda _: size)


@pytest.mark.parametrize("threads", [0, 4 * (os.cpu_count() or 1) + 1, 100_000, 2**31, 2**64])
def test_threads(threads: int) -> None:
    with pytest.raises(ConfigError, match=f"--threads is {threads}; allowed: 1 to "):
        set_threads(threads)


@pytest.mark.parametrize("block_size", [0, LEN + 1, 1_000_000, 2**62, 10**30])
@pytest.mark.parametrize("pool", [{}, {"kv_blocks": 1}, {"kv_memory": 2**40}])
def test_a_block_is_no_longer_than_a_request(model: PagedModel, block_size: int, pool: Any) -> None:
    config = EngineConfig(block_size=block_size, **pool)
    with pytest.raises(ConfigError, match=f"--block-size is {block_size}; allowed: 1 to {LEN}, "):
        num_blocks_of_pool(config, model, LEN)


def test_the_longest_block_and_the_default_one_in_a_short_context(model: PagedModel) -> None:
    assert num_blocks_of_pool(EngineConfig(block_size=LEN), model, LEN) == 4
    assert num_blocks_of_pool(EngineConfig(), model, 3) == 4


def test_the_default_pool_stays_within_a_quarter_of_the_free_memory(
    model: PagedModel, free: Any
) -> None:
    one_block = BLOCK * BYTES
    for num_free_blocks, expected in ((1000, 16), (64, 16), (40, 10), (4, 1), (1, 1)):
        free(num_free_blocks * one_block)
        assert num_blocks_of_pool(EngineConfig(), model, LEN) == expected


@pytest.mark.parametrize(
    "pool", [{}, {"kv_blocks": 1}, {"kv_memory": BLOCK * BYTES}, {"kv_blocks": 10**30}]
)
def test_no_pool_is_larger_than_the_free_memory(model: PagedModel, free: Any, pool: Any) -> None:
    free(BLOCK * BYTES - 1)
    with pytest.raises(ConfigError, match=f"{BLOCK * BYTES - 1} bytes are free") as caught:
        num_blocks_of_pool(EngineConfig(**pool), model, LEN)
    assert caught.value.hint == "Use a smaller --block-size."


def test_what_the_container_may_still_take(tmp_path: Path) -> None:
    """The file cache is handed back under pressure; a limit may be absent or `max`."""
    for name, text in {
        "memory.max": "1000\n",
        "memory.current": "700\n",
        "memory.stat": "anon 400\nfile 300\ninactive_file 250\n",
    }.items():
        (tmp_path / name).write_text(text)
    assert cgroup_memory(tmp_path) == 550
    (tmp_path / "memory.max").write_text("max\n")
    assert cgroup_memory(tmp_path) == cgroup_memory(tmp_path / "no") == 2**63 - 1
