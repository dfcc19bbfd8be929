"""What is put is what is got: into the right blocks, by the right keys, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mooncake_cluster
import numpy as np
import pytest
from mooncake_cluster import DEADLINE_S, Cluster
from numpy_memory import NumpyMemory, everywhere, found, full_blocks, prompt, run_of

from kvtool.cache.block_keys import BlockKeys
from kvtool.cache.group import GroupSpec
from kvtool.cache.namespace import Namespace
from kvtool.tiers.mooncake import MooncakeTier, mooncake
from kvtool.tiers.mooncake.block_object import object_name
from kvtool.tiers.mooncake.connection import connect

pytestmark = mooncake_cluster.needed
Connected = Callable[..., MooncakeTier]
SHAPES = {
    "one group": ((GroupSpec(layers=(0, 1, 2), kind="kv", num_kv_heads=2, head_dim=16, dtype="float32"),), 16),
    "odd": ((GroupSpec(layers=(0,), kind="kv", num_kv_heads=1, head_dim=3, dtype="bfloat16"),), 1),
    "latent": ((GroupSpec(layers=(0, 1), kind="latent", num_kv_heads=1, head_dim=9, dtype="float16"),), 5),
    "three groups": (
        (
            GroupSpec(layers=(0, 3), kind="kv", num_kv_heads=2, head_dim=4, dtype="float32"),
            GroupSpec(layers=(1,), kind="kv", num_kv_heads=5, head_dim=3, dtype="bfloat16", window=8),
            GroupSpec(layers=(2, 4), kind="latent", num_kv_heads=1, head_dim=11, dtype="float32"),
        ),
        7,
    ),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("blocks_a_call", [1, 3, 100])
def test_bytes_return_into_their_blocks_and_only_there(
    cluster: Cluster,
    connected: Connected,
    monkeypatch: pytest.MonkeyPatch,
    shape: str,
    blocks_a_call: int,
) -> None:
    groups, block_size = SHAPES[shape]
    tier = connected(cluster, groups, block_size)
    monkeypatch.setattr(mooncake, "CALL_BYTES", blocks_a_call * tier._format.object_bytes)
    keys = prompt(f"{shape} {blocks_a_call}", 7 * block_size, block_size)
    source = NumpyMemory(groups, block_size, 12, seed=1)
    from_ids = everywhere(source, [3, 9, 0, 7, 5, 1, 11])
    stored = tier.put(run_of(keys), source.source(from_ids))
    kv_bytes = sum(group.block_bytes(block_size) for group in groups)
    assert stored == (7, 7 * kv_bytes, None, None)

    target = NumpyMemory(groups, block_size, 20, seed=2)
    before = target.copy()
    to_ids = everywhere(target, [18, 2, 4, 17, 8, 0, 10])
    arrived: list[int] = []
    tier.get(found(tier, keys), target.target(to_ids), arrived.append)
    assert sorted(arrived) == list(range(sum(len(group.layers) for group in groups)))
    for group in range(len(groups)):
        before[group][to_ids[group]] = source.pools[group][from_ids[group]]
        assert np.array_equal(target.pools[group], before[group])
    tier.check_integrity()


def test_a_part_of_a_chain_can_be_read(cluster: Cluster, connected: Connected) -> None:
    tier = connected(cluster)
    keys = prompt("a part", 20)
    memory = NumpyMemory()
    tier.put(run_of(keys), memory.source(everywhere(memory, range(5))))
    tier.get(found(tier, keys)[2:4], memory.target(everywhere(memory, [7, 8])), _ignored)
    assert np.array_equal(memory.pools[0][[7, 8]], memory.pools[0][[2, 3]])


def test_what_is_there_is_not_sent_again(cluster: Cluster, connected: Connected) -> None:
    tier = connected(cluster)
    keys = prompt("again", 20)
    memory = NumpyMemory()
    views = memory.source(everywhere(memory, range(5)))
    kv_bytes = sum(group.block_bytes(4) for group in memory.groups)
    assert tier.put(run_of(keys, 0, 3), memory.source(everywhere(memory, range(3)))).num_blocks == 3
    assert tier.put(run_of(keys), views) == (2, 2 * kv_bytes, None, None)
    assert tier.put(run_of(keys), views) == (0, 0, None, None)


def test_a_partial_last_block_stays_here(cluster: Cluster, connected: Connected) -> None:
    tier = connected(cluster)
    keys = prompt("partial", 11)
    memory = NumpyMemory()
    stored = tier.put(run_of(keys), memory.source(everywhere(memory, range(3))))
    assert (stored.num_blocks, stored.reason) == (2, None)
    assert len(found(tier, prompt("partial", 12))) == 2
    assert tier.extend(keys.parent(2), keys.tokens[8:]) is None


def test_a_gap_ends_the_hit(cluster: Cluster, connected: Connected) -> None:
    tier = connected(cluster)
    keys = prompt("gap", 16)
    memory = NumpyMemory()
    tier.put(run_of(keys), memory.source(everywhere(memory, range(4))))
    assert tier.remove([keys.key(2)]) == 1
    raw = _raw(cluster).batch_is_exist([object_name(key) for key in keys.span(0, 4)])
    assert raw == [1, 1, 0, 1]
    assert len(tier.contains(*full_blocks(keys))) == 2


def test_one_presence_call_for_a_prompt(
    cluster: Cluster, connected: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    tier = connected(cluster)
    keys = prompt("one call", 4 * 1000)
    calls = _counted(monkeypatch, _raw(cluster))
    assert tier.contains(*full_blocks(keys)) == []
    assert calls == ["batch_is_exist"]


@pytest.mark.report("S65")
@pytest.mark.report("S68")
def test_another_salt_finds_nothing_the_same_salt_everything(
    cluster: Cluster, connected: Connected
) -> None:
    tier = connected(cluster)
    salted = {salt: _namespace(salt).digest for salt in ("a", "b", None)}
    tokens = np.arange(12, dtype=np.int32)
    memory = NumpyMemory()
    views = memory.source(everywhere(memory, range(3)))
    tier.put(run_of(BlockKeys(salted["a"], tokens, 4)), views)
    hits = {salt: found(tier, BlockKeys(digest, tokens, 4)) for salt, digest in salted.items()}
    assert {salt: len(blocks) for salt, blocks in hits.items()} == {"a": 3, "b": 0, None: 0}


@pytest.mark.report("S49")
@pytest.mark.parametrize(
    "other",
    [{"weights": "x"}, {"kv_dtype": "float16"}, {"rope_regime": "x"}, {"adapter": "x"}],
    ids=lambda other: next(iter(other)),
)
def test_other_contents_of_a_namespace_are_a_miss(
    cluster: Cluster, connected: Connected, other: dict[str, str]
) -> None:
    tier = connected(cluster)
    tokens = np.arange(12, dtype=np.int32)
    memory = NumpyMemory()
    mine = BlockKeys(_namespace("s49").digest, tokens, 4)
    tier.put(run_of(mine), memory.source(everywhere(memory, range(3))))
    assert found(tier, BlockKeys(_namespace("s49", **other).digest, tokens, 4)) == []
    assert len(found(tier, mine)) == 3


def _namespace(salt: str | None, **other: str) -> Namespace:
    names = ("weights", "architecture", "rope_regime", "compute_dtype", "kv_dtype", "kv_layout")
    fields: dict[str, Any] = dict.fromkeys(names, "the same") | other
    return Namespace(**fields, block_size=4, tokenizer="the same", salt=salt)


def _raw(cluster: Cluster) -> Any:
    return connect(cluster.address, DEADLINE_S)


def _ignored(_layer: int) -> None: ...


def _counted(monkeypatch: pytest.MonkeyPatch, client: Any) -> list[str]:
    """The names of the calls that the client gets from now on."""
    calls: list[str] = []

    class Counted:
        def __getattr__(self, name: str) -> Any:
            calls.append(name)
            return getattr(client, name)

    monkeypatch.setattr(
        "kvtool.tiers.mooncake.client.connect", lambda _address, _deadline_s: Counted()
    )
    return calls
