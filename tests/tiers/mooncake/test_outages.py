"""Whatever happens to the store: an answer in time, and the way back without a restart.

Every test asks for a bounded wait, not for speed: the deadline and two seconds.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import mooncake_cluster
import numpy as np
import pytest
from mooncake_cluster import DEADLINE_S, Cluster, frozen, stop, wait_until
from numpy_memory import BLOCK_SIZE, GROUPS, NumpyMemory, everywhere, found, prompt, run_of

from kvtool.cache.block_keys import BlockKeys
from kvtool.cache.group import GroupSpec
from kvtool.tiers.mooncake import MooncakeTier, mooncake, store_health
from kvtool.tiers.tier import Missing, Stored

pytestmark = mooncake_cluster.needed
Connected = Callable[..., MooncakeTier]


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Cluster]:
    with mooncake_cluster.running(tmp_path) as cluster:
        yield cluster


@contextlib.contextmanager
def in_time() -> Iterator[None]:
    start = time.monotonic()
    yield
    assert time.monotonic() - start < DEADLINE_S + 2


def put(tier: MooncakeTier, keys: BlockKeys) -> Stored:
    memory = NumpyMemory()
    return tier.put(run_of(keys), memory.source(everywhere(memory, range(len(keys)))))


def returns(tier: MooncakeTier, keys: BlockKeys) -> bool:
    """Whether the whole prompt is found and comes back as `put` has sent it."""
    source, target = NumpyMemory(), NumpyMemory(seed=1)
    ids = everywhere(source, range(len(keys)))
    blocks = found(tier, keys)
    if len(blocks) < len(keys):
        return False
    tier.get(blocks, target.target(ids), lambda _layer: None)
    return all(np.array_equal(a[i], b[i]) for a, b, i in zip(source.pools, target.pools, ids))


def works(tier: MooncakeTier, name: str) -> bool:
    """Whether something new can be stored and read."""
    keys = prompt(name, 12)
    return put(tier, keys).reason is None and returns(tier, keys)


def test_no_master_at_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    address = ("127.0.0.1", mooncake_cluster.free_port())
    with caplog.at_level(logging.WARNING), in_time():
        tier = MooncakeTier("mooncake://{}:{}".format(*address), GROUPS, BLOCK_SIZE, pause_s=0.2)
        assert found(tier, prompt("early", 12)) == []
        time.sleep(0.2)
        assert put(tier, prompt("early", 12)).reason is not None
    (record,) = caplog.records
    assert "is not used for now: no connection" in record.getMessage()
    with mooncake_cluster.running(tmp_path, port=address[1]):
        wait_until(lambda: works(tier, "early"))


def test_health(own: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    health = store_health(own.url)
    assert health.reachable and health.reason is None
    assert health.latency_ms is not None and health.latency_ms > 0
    with frozen(own.master), in_time():
        assert store_health(own.url)[:2] == (False, None)
    own.close()
    mooncake_cluster.connect.cache_clear()
    health = store_health(own.url)
    assert (health.reachable, health.latency_ms) == (False, None)
    assert str(health.reason).startswith("no connection")
    assert caplog.records == [], "whoever asks gets the reason as the answer"


def test_something_else_listens_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = "mooncake://{}:{}".format(*silent.getsockname())
        with in_time():
            tier = MooncakeTier(url, GROUPS, BLOCK_SIZE)
        assert found(tier, prompt("silent", 12)) == []


def test_master_frozen(own: Cluster, connected: Connected, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mooncake, "FORGOTTEN_S", 0.5)
    tier, keys = connected(own), prompt("frozen", 12)
    put(tier, keys)
    blocks = found(tier, keys)
    with frozen(own.master):
        with in_time():
            assert found(tier, keys) == []
        with in_time():  # known to be down
            assert found(tier, keys) == []
            assert put(tier, keys).reason is not None
        time.sleep(0.2)
        with in_time(), pytest.raises(Missing):
            _read_into_others(tier, blocks)
    wait_until(lambda: returns(tier, keys))


def test_master_frozen_while_another_process_starts(own: Cluster) -> None:
    mooncake_cluster.connect.cache_clear()
    with frozen(own.master), in_time():
        tier = MooncakeTier(own.url, GROUPS, BLOCK_SIZE, pause_s=0.2)
        assert found(tier, prompt("late", 12)) == []
    wait_until(lambda: works(tier, "late"))


def test_master_killed_and_restarted_empty(
    own: Cluster, connected: Connected, caplog: pytest.LogCaptureFixture
) -> None:
    tier, keys = connected(own), prompt("killed", 12)
    put(tier, keys)
    blocks = found(tier, keys)
    with caplog.at_level(logging.WARNING):
        stop(own.master)
        with in_time(), pytest.raises(Missing):
            _read_into_others(tier, blocks)
        time.sleep(0.2)
        with in_time():
            assert put(tier, prompt("while down", 12)).reason is not None
        with in_time():
            assert found(tier, keys) == []
    assert len(caplog.records) == 1
    own.restart_master()
    wait_until(lambda: works(tier, "after"))
    assert found(tier, keys) == []
    assert put(tier, keys).num_blocks == 3
    assert returns(tier, keys)


@pytest.mark.report("S47")
def test_owner_of_the_memory_killed(own: Cluster, connected: Connected) -> None:
    tier, keys = connected(own), prompt("owner", 12)
    put(tier, keys)
    blocks = found(tier, keys)
    stop(own.owner)
    with in_time(), pytest.raises(Missing):
        _read_into_others(tier, blocks)
    assert found(tier, keys) == [], "though the master still says it is there"
    assert put(tier, keys) == (0, 0, "a copy that is there cannot be read", None)
    with in_time():
        stored = put(tier, prompt("nobody", 12))
    assert stored.num_blocks == 0 and stored.reason is not None
    assert found(tier, prompt("nobody", 12)) == []


def test_owner_frozen_holds_the_blocks_until_nothing_writes_them(
    own: Cluster, connected: Connected
) -> None:
    tier, keys = connected(own), prompt("half-way", 12)
    put(tier, keys)
    blocks = found(tier, keys)
    with frozen(own.owner):
        with in_time(), pytest.raises(Missing) as missing:
            _read_into_others(tier, blocks)
        assert missing.value.unfinished is not None
        with in_time():
            stored = put(tier, prompt("meanwhile", 12))
        assert stored.num_blocks == 0 and stored.reason is not None
    wait_until(missing.value.unfinished.done)
    wait_until(lambda: works(tier, "thawed"))


def test_a_full_store_makes_room_or_says_so(
    own: Cluster, connected: Connected, caplog: pytest.LogCaptureFixture
) -> None:
    group = GroupSpec(layers=(0,), kind="kv", num_kv_heads=8, head_dim=64, dtype="float32")
    groups, size = (group,), 256  # 1 MiB a block, 64 MiB in the store
    tier = connected(own, groups, size)
    memory = NumpyMemory(groups, size, 16)
    views = memory.source(everywhere(memory, range(16)))
    with caplog.at_level(logging.WARNING):
        results = [tier.put(run_of(prompt(f"{i}", 16 * size, size)), views) for i in range(8)]
    assert results[0] == (16, 16 << 20, None, None)
    full = [result for result in results if result.reason]
    assert all("the store is full" in result.reason for result in full)
    assert len(caplog.records) == bool(full)
    for index, result in enumerate(results):
        blocks = found(tier, prompt(f"{index}", 16 * size, size))
        assert len(blocks) <= 16 and (result.num_blocks or not blocks)
        tier.get(blocks, memory.target(everywhere(memory, range(len(blocks)))), lambda _: None)


def test_a_block_larger_than_the_store(own: Cluster, connected: Connected) -> None:
    group = GroupSpec(layers=(0,), kind="kv", num_kv_heads=64, head_dim=256, dtype="float32")
    tier = connected(own, (group,), 1024)  # 128 MiB
    memory = NumpyMemory((group,), 1024, 1)
    with in_time():
        stored = tier.put(
            run_of(prompt("large", 1024, 1024)), memory.source(everywhere(memory, [0]))
        )
    assert stored.num_blocks == 0 and "the store is full" in str(stored.reason)
    assert found(tier, prompt("large", 1024, 1024)) == []


def _read_into_others(tier: MooncakeTier, blocks: list) -> None:
    memory = NumpyMemory()
    tier.get(blocks, memory.target(everywhere(memory, range(len(blocks)))), _unexpected)


def _unexpected(_layer: int) -> None:
    raise AssertionError("an unverified layer was handed on")
