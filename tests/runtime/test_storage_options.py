"""Where KV is kept beyond the pool: the folder, the memory, what cannot be combined."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tiny

from kvtool.config import EngineConfig
from kvtool.errors import ConfigError
from kvtool.models.hf import PagedModel
from kvtool.runtime import host_memory
from kvtool.runtime.cache_folder import cache_folder
from kvtool.runtime.host_memory import host_memory_bytes

ONE_BLOCK = 16 * 4 * 2 * 2 * 16 * 4  # tokens, layers, K and V, KV heads, head_dim, float32
FREE = 100 * ONE_BLOCK


@pytest.fixture(scope="module")
def model() -> PagedModel:
    return PagedModel(tiny.build("llama"))


@pytest.fixture
def accelerated(model: PagedModel) -> Any:
    return SimpleNamespace(groups=model.groups, device=SimpleNamespace(type="cuda"))


@pytest.fixture(autouse=True)
def _free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_memory, "free_host_memory", lambda: FREE)


def test_the_folder_is_given_or_named_by_the_environment_or_the_users(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert cache_folder("link") == tmp_path / "real"
    monkeypatch.setenv("KVTOOL_CACHE_DIR", "link/kv")
    assert cache_folder() == tmp_path / "real" / "kv"
    assert cache_folder("other") == tmp_path / "other"
    for value in ("", None):
        if value is None:
            monkeypatch.delenv("KVTOOL_CACHE_DIR")
        else:
            monkeypatch.setenv("KVTOOL_CACHE_DIR", value)
        assert cache_folder() == tmp_path / "home" / "kvtool" / "kv"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]


def test_a_folder_that_no_path_can_be(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'a\\x00b' cannot be a cache folder"):
        cache_folder("a\0b")


def test_host_memory_by_default(model: PagedModel, accelerated: Any) -> None:
    assert host_memory_bytes(EngineConfig(), model, 8) == 0
    assert host_memory_bytes(EngineConfig(), accelerated, 8) == FREE // 4
    assert host_memory_bytes(EngineConfig(reuse="none"), accelerated, 8) == 0
    assert host_memory_bytes(EngineConfig(host_memory=0), accelerated, 8) == 0


@pytest.mark.parametrize(("pool", "largest"), [(0, FREE), (40, 60 * ONE_BLOCK)])
def test_host_memory_beside_a_pool_in_host_memory(
    model: PagedModel, accelerated: Any, pool: int, largest: int
) -> None:
    assert host_memory_bytes(EngineConfig(host_memory=largest), model, pool) == largest
    assert host_memory_bytes(EngineConfig(host_memory=FREE), accelerated, pool) == FREE
    for size in (1, ONE_BLOCK - 1, largest + 1):
        with pytest.raises(ConfigError, match=f"--host-memory is {size} B; allowed: 0 ") as bad:
            host_memory_bytes(EngineConfig(host_memory=size), model, pool)
        assert f"{ONE_BLOCK} B (one block) to {largest} B" in bad.value.message


@pytest.mark.report("S17")
@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"cache_dir": "x", "no_cache_dir": True}, "--no-cache-dir and --cache-dir"),
        ({"durable": True, "no_cache_dir": True}, "--no-cache-dir and --durable"),
        ({"cache_size": 5, "no_cache_dir": True}, "--no-cache-dir and --cache-size"),
        ({"cache_dir": "x", "durable": True, "reuse": "none"}, "--cache-dir, --durable exclude"),
        ({"remote": "mooncake://h:1", "reuse": "none"}, "--reuse none and --remote"),
        ({"host_memory": 5, "reuse": "none"}, "--reuse none and --host-memory"),
        ({"cache_size": 0}, "--cache-size is 0"),
        ({"host_memory": -1}, "--host-memory is -1"),
    ],
)
def test_what_cannot_be(options: Any, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        EngineConfig(**options)


def test_what_can_be() -> None:
    assert EngineConfig(remote="mooncake://h:1", no_cache_dir=True, host_memory=5).remote
    assert EngineConfig(host_memory=0, reuse="none").host_memory == 0
    assert [
        EngineConfig(**options).keeps_on_disk
        for options in ({}, {"no_cache_dir": True}, {"reuse": "none"})
    ] == [True, False, False]
