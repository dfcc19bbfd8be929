"""What the store returns is believed only if it is what the key stands for."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import mooncake_cluster
import numpy as np
import numpy.typing as npt
import pytest
from mooncake_cluster import DEADLINE_S, Cluster
from numpy_memory import NumpyMemory, everywhere, found, prompt, run_of

from kvtool.cache.backing import StoredBlock
from kvtool.cache.block_hash import token_bytes
from kvtool.tiers.mooncake import MooncakeTier
from kvtool.tiers.mooncake.block_object import object_name
from kvtool.tiers.mooncake.connection import connect
from kvtool.tiers.tier import Missing

pytestmark = mooncake_cluster.needed
Connected = Callable[..., MooncakeTier]
HEADER = 32 + 32 + 8 + 8 + 3 * 4 + 2 * 8 + 4 * 4 + 2 * 16 + 16  # of `numpy_memory.GROUPS`
PLACES = {"magic": 7, "namespace": 8, "parent": 40, "home": 72, "exact": 80, "tokens": 110}
PLACES |= {"checksum": 130, "own checksum": HEADER - 1, "first byte": HEADER, "last byte": -1}


@pytest.mark.report("S44")
@pytest.mark.parametrize("place", PLACES)
def test_a_flipped_byte_is_a_miss_until_a_good_copy_comes(
    cluster: Cluster, connected: Connected, place: str
) -> None:
    tier, memory = connected(cluster), NumpyMemory()
    keys = prompt(f"flipped {place}", 12)
    tier.put(run_of(keys), memory.source(everywhere(memory, range(3))))
    blocks = found(tier, keys)
    value = _read(cluster, keys.key(1), tier)
    value[PLACES[place]] ^= 1
    _replace(cluster, keys.key(1), value)

    target = memory.target(everywhere(memory, [5, 6, 7]))
    arrived: list[int] = []
    with pytest.raises(Missing, match="damaged"):
        tier.get(blocks, target, arrived.append)
    assert arrived == []
    assert len(found(tier, keys)) == 1, "forgotten here"
    assert _client(cluster).is_exist(object_name(keys.key(1))) == 0, "and there"

    tier.put(run_of(keys), memory.source(everywhere(memory, range(3))))
    tier.get(found(tier, keys), target, arrived.append)
    assert np.array_equal(memory.pools[0][5:8], memory.pools[0][:3])


@pytest.mark.parametrize("change", [-1, 1, 1 - HEADER])
def test_an_object_of_another_size_is_a_miss(
    cluster: Cluster, connected: Connected, change: int
) -> None:
    tier, memory = connected(cluster), NumpyMemory()
    keys = prompt(f"size {change}", 8)
    tier.put(run_of(keys), memory.source(everywhere(memory, range(2))))
    blocks = found(tier, keys)
    _replace(cluster, keys.key(0), np.zeros(tier._format.object_bytes + change, dtype=np.uint8))
    with pytest.raises(Missing):
        tier.get(blocks, memory.target(everywhere(memory, [5, 6])), _unexpected)
    assert found(tier, keys) == []


@pytest.mark.report("S66")
def test_a_block_under_a_foreign_key_is_a_miss(cluster: Cluster, connected: Connected) -> None:
    tier, memory = connected(cluster), NumpyMemory()
    mine, other = prompt("mine", 4), prompt("other", 4)
    tier.put(run_of(mine), memory.source(everywhere(memory, [0])))
    _replace(cluster, other.key(0), _read(cluster, mine.key(0), tier))
    with pytest.raises(Missing, match="other tokens"):
        tier.get(found(tier, other), memory.target(everywhere(memory, [5])), _unexpected)


@pytest.mark.report("S66")
def test_a_colliding_key_gives_no_hit(cluster: Cluster, connected: Connected) -> None:
    tier, memory = connected(cluster), NumpyMemory()
    keys = prompt("collision", 4)
    tier.put(run_of(keys), memory.source(everywhere(memory, [0])))
    asked = StoredBlock(keys.key(0), 4, "remote", token_bytes(keys.tokens + 1))
    with pytest.raises(Missing, match="other tokens"):
        tier.get([asked], memory.target(everywhere(memory, [5])), _unexpected)


def test_the_warning_comes_once(
    cluster: Cluster, connected: Connected, caplog: pytest.LogCaptureFixture
) -> None:
    tier, memory = connected(cluster), NumpyMemory()
    with caplog.at_level(logging.WARNING):
        for name in ("gone 1", "gone 2"):
            keys = prompt(name, 4)
            tier.put(run_of(keys), memory.source(everywhere(memory, [0])))
            blocks = found(tier, keys)
            _client(cluster).remove(object_name(keys.key(0)), force=True)
            with pytest.raises(Missing, match="gone"):
                tier.get(blocks, memory.target(everywhere(memory, [5])), _unexpected)
    assert [record.getMessage().count("gone") for record in caplog.records] == [1]


def _client(cluster: Cluster) -> Any:
    return connect(cluster.address, DEADLINE_S)


def _read(cluster: Cluster, key: bytes, tier: MooncakeTier) -> npt.NDArray[np.uint8]:
    value = np.zeros(tier._format.object_bytes, dtype=np.uint8)
    size = _client(cluster).get_into(object_name(key), value.ctypes.data, value.nbytes)
    assert size == value.nbytes
    return value


def _replace(cluster: Cluster, key: bytes, value: npt.NDArray[np.uint8]) -> None:
    client, name = _client(cluster), object_name(key)
    client.remove(name, force=True)
    assert client.put_from(name, value.ctypes.data, value.nbytes) == 0


def _unexpected(_layer: int) -> None:
    raise AssertionError("an unverified layer was handed on")
