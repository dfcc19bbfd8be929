"""Host memory: all or a prefix, least recently used first, never a block that is being read."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.cache.backing import Run, StoredBlock
from kvtool.cache.block_keys import BlockKeys
from kvtool.cache.group import GroupSpec
from kvtool.tiers.host import HostTier
from kvtool.tiers.host_views import HostViews
from kvtool.tiers.memory import BlockViews
from kvtool.tiers.tier import Missing, Stored

SIZE = 4
GROUPS = (
    GroupSpec(layers=(0, 2), kind="kv", num_kv_heads=1, head_dim=2, dtype="float32"),
    GroupSpec(layers=(1,), kind="latent", num_kv_heads=1, head_dim=3, dtype="bfloat16"),
)
BLOCK_BYTES = sum(group.block_bytes(SIZE) for group in GROUPS)


def tier_of(num_slots: int) -> HostTier:
    return HostTier(num_slots * BLOCK_BYTES + BLOCK_BYTES - 1, GROUPS, SIZE)


def keys_of(tokens: Sequence[int], namespace: bytes = b"") -> BlockKeys:
    return BlockKeys(namespace, np.array(tokens, dtype=np.int32), SIZE)


def run_of(tokens: Sequence[int], first: int = 0) -> Run:
    """Blocks from `first` on, a partial last one included."""
    keys = keys_of(tokens)
    return Run(
        namespace=b"",
        parent=keys.parent(first),
        keys=tuple(keys.span(first, len(keys))),
        tokens=keys.tokens[first * SIZE :],
        home=first * SIZE,
    )


def views_of(run: Run) -> HostViews:
    """Bytes that say which block they belong to."""
    blocks = [[bytes_of(key, group) for key in run.keys] for group in range(len(GROUPS))]
    return HostViews([[memoryview(block) for block in group] for group in blocks], GROUPS)


def bytes_of(key: bytes, group: int) -> bytearray:
    seed = int.from_bytes(key[:8], "little") + group
    return bytearray(np.random.default_rng(seed).bytes(GROUPS[group].block_bytes(SIZE)))


def stored(tier: HostTier, tokens: Sequence[int]) -> list[StoredBlock]:
    keys = keys_of(tokens)
    wanted = keys.span(0, keys.num_full_blocks)
    rows = keys.tokens[: len(wanted) * SIZE].reshape(-1, SIZE)
    return [
        StoredBlock(key, SIZE, "host", place)
        for key, place in zip(wanted, tier.contains(wanted, rows))
    ]


def read(tier: HostTier, blocks: Sequence[StoredBlock]) -> None:
    """Read and compare."""
    views = HostViews(
        [[memoryview(bytearray(g.block_bytes(SIZE))) for _ in blocks] for g in GROUPS], GROUPS
    )
    layers: list[int] = []
    tier.get(blocks, views, layers.append)
    assert layers == [0, 1, 2]
    for index, block in enumerate(blocks):
        for group in range(len(GROUPS)):
            assert bytes(views.block(group, index)) == bytes_of(block.key, group)


def put(tier: HostTier, tokens: Sequence[int], first: int = 0) -> int:
    run = run_of(tokens, first)
    return tier.put(run, views_of(run)).num_blocks


def test_layers_of_views_are_rows_of_their_groups() -> None:
    run = run_of(range(4))
    views = views_of(run)
    first, latent = bytes(views.block(0, 0)), bytes(views.block(1, 0))
    assert [bytes(views.layer(layer, 0)) for layer in range(3)] == [
        first[: len(first) // 2],
        latent,
        first[len(first) // 2 :],
    ]


def test_what_is_put_is_found_and_read() -> None:
    tier = tier_of(8)
    assert put(tier, range(12)) == 3
    assert put(tier, range(12)) == 0
    assert put(tier, [*range(8), 9, 9, 9, 9]) == 1
    read(tier, stored(tier, range(12)))
    assert len(stored(tier, [*range(8), 9, 9, 9, 9])) == 3
    assert len(stored(tier, [*range(8), 7, 7, 7, 7])) == 2
    assert not stored(tier, [1, *range(11)])
    tier.check_integrity()


def test_tokens_are_compared() -> None:
    tier = tier_of(2)
    put(tier, range(4))
    key = keys_of(range(4)).key(0)
    assert tier.contains([key], np.array([[0, 1, 2, 9]], dtype=np.int32)) == []


@pytest.mark.report("S53")
def test_partial_blocks_are_extended_token_by_token() -> None:
    tier = tier_of(8)
    put(tier, range(6))
    put(tier, [0, 1, 2, 3, 4, 9, 9, 9])
    keys = keys_of(range(4))
    for wanted, length in [([4, 5, 6, 7], 2), ([4, 9, 9], 3), ([4, 7], 1), ([5], 0), ([4], 1)]:
        part = tier.extend(keys.parent(1), np.array(wanted, dtype=np.int32))
        assert (part.num_tokens if part else 0) == length
    assert tier.extend(b"\0" * 32, np.array([4], dtype=np.int32)) is None


@pytest.mark.report("S48")
def test_a_run_larger_than_the_memory_is_kept_as_a_prefix() -> None:
    tier = tier_of(2)
    run = run_of(range(20))
    result = tier.put(run, views_of(run))
    assert (result.num_blocks, result.num_bytes) == (2, 2 * BLOCK_BYTES)
    assert result.reason == "host memory is full of blocks in use"
    found = stored(tier, range(20))
    assert len(found) == 2
    read(tier, found)
    tier.check_integrity()


def test_without_room_for_a_block_nothing_is_kept() -> None:
    tier = HostTier(BLOCK_BYTES - 1, GROUPS, SIZE)
    assert tier.num_slots == 0 and put(tier, range(8)) == 0
    assert not stored(tier, range(8))


def test_the_least_recently_used_chain_goes_first_from_its_end() -> None:
    tier = tier_of(4)
    removed: list[bytes] = []
    tier.removed = removed.extend
    put(tier, range(8))
    put(tier, range(100, 108))
    stored(tier, range(8))
    put(tier, range(200, 204))
    assert [len(stored(tier, range(s, s + 8))) for s in (0, 100)] == [2, 1]
    put(tier, range(300, 308))
    assert [len(stored(tier, range(s, s + 8))) for s in (0, 100, 200, 300)] == [1, 1, 0, 2]
    assert removed == [keys_of(range(s, s + 8)).key(i) for s, i in ((100, 1), (200, 0), (0, 1))]


def test_what_a_run_continues_is_not_dropped_for_it() -> None:
    tier = tier_of(2)
    put(tier, range(4))
    put(tier, range(100, 104))
    assert put(tier, range(12), first=1) == 1
    assert [len(stored(tier, range(s, s + 12))) for s in (0, 100)] == [2, 0]


def test_only_blocks_that_no_lower_tier_has_are_spilled() -> None:
    tier = tier_of(2)
    spilled: list[tuple[Run, bytes]] = []

    def spill(run: Run, views: BlockViews) -> Stored:
        spilled.append((run, bytes(views.block(0, 0))))
        return Stored(1, BLOCK_BYTES)

    tier.spill = spill
    put(tier, range(4))
    put(tier, range(100, 104))
    tier.kept_below([keys_of(range(4)).key(0)])
    put(tier, range(200, 208))
    run = run_of(range(100, 104))
    assert [(r.keys, r.parent, r.home) for r, _ in spilled] == [(run.keys, run.parent, 0)]
    assert spilled[0][1] == bytes(bytes_of(run.keys[0], 0))


@pytest.mark.report("S52")
def test_a_slot_waits_for_a_call_that_the_lower_tier_gave_up() -> None:
    tier = tier_of(2)
    calls: list[Future[object]] = []

    def spill(run: Run, views: BlockViews) -> Stored:
        calls.append(Future())
        return Stored(0, 0, "the deadline passed", unfinished=calls[-1])

    tier.spill = spill
    put(tier, range(8))
    assert put(tier, range(100, 108)) == 0 and len(calls) == 2
    tier.check_integrity()
    calls[0].set_result(None)
    assert put(tier, range(100, 108)) == 1
    calls[1].set_result(None)
    assert put(tier, range(100, 108)) == 1
    tier.check_integrity()


@pytest.mark.report("S48")
def test_a_dropped_block_is_missing_and_fills_nothing() -> None:
    tier = tier_of(2)
    put(tier, range(8))
    found = stored(tier, range(8))
    assert tier.remove([found[1].key, found[1].key, b"no"]) == 1
    target = [[memoryview(bytearray(g.block_bytes(SIZE))) for _ in found] for g in GROUPS]
    with pytest.raises(Missing, match="dropped"):
        tier.get(found, HostViews(target, GROUPS), lambda layer: None)
    assert not any(any(block) for group in target for block in group)
    tier.check_integrity()


@pytest.mark.report("S52")
def test_a_block_that_is_read_keeps_its_slot() -> None:
    """Removed and overwritten in the middle of a read, as far as the tier lets that happen."""
    tier = tier_of(1)
    put(tier, range(4))
    found = stored(tier, range(4))

    class Interfering(HostViews):
        def block(self, group: int, index: int) -> memoryview:
            if group == 0:
                assert put(tier, range(50, 54)) == 0
                tier.remove([found[0].key])
                assert put(tier, range(50, 54)) == 0
            return super().block(group, index)

    views = Interfering([[memoryview(bytearray(g.block_bytes(SIZE)))] for g in GROUPS], GROUPS)
    tier.get(found, views, lambda layer: None)
    assert bytes(HostViews.block(views, 1, 0)) == bytes(bytes_of(found[0].key, 1))
    assert put(tier, range(50, 54)) == 1
    tier.check_integrity()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_random_walk(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tier = tier_of(int(rng.integers(1, 9)))
    for _ in range(30):
        tokens = [int(rng.integers(2)) for _ in range(int(rng.integers(1, 18)))]
        choice = rng.random()
        if choice < 0.5:
            first = int(rng.integers(len(keys_of(tokens))))
            put(tier, tokens, first)
        elif choice < 0.8:
            read(tier, stored(tier, tokens)) if stored(tier, tokens) else None
        elif choice < 0.9:
            tier.extend(keys_of(tokens).parent(0), np.array(tokens[:SIZE], dtype=np.int32))
        else:
            tier.remove(keys_of(tokens).span(0, 1))
        tier.check_integrity()


def test_threads() -> None:
    """Two put, one reads, into memory for a few blocks: whatever is read is whole."""
    tier = tier_of(6)
    stop = threading.Event()
    failures: list[BaseException] = []

    def work(seed: int, action: str) -> None:
        rng = np.random.default_rng(seed)
        try:
            while not stop.is_set():
                tokens = [int(rng.integers(2)), *range(11)]
                if action == "put":
                    put(tier, tokens)
                elif found := stored(tier, tokens):
                    with suppress(Missing):
                        read(tier, found)
                tier.check_integrity()
        except BaseException as error:
            failures.append(error)

    threads = [
        threading.Thread(target=work, args=(seed, action))
        for seed, action in enumerate(["put", "put", "read"])
    ]
    for thread in threads:
        thread.start()
    stop.wait(0.5)
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures
