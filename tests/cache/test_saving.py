"""What the manager writes below, and what it takes from there."""

from __future__ import annotations

import numpy as np
import pytest
from cache.fake_backing import FakeBacking
from cache.walks import GROUP, make_manager, run, tokens_from, tokens_of

from kvtool.cache.block_keys import BlockKeys
from kvtool.cache.manager import CacheManager, Tokens


def tiered(
    num_blocks: int = 64, block_size: int = 1, num_groups: int = 1, **config: str
) -> tuple[CacheManager, FakeBacking]:
    """The slots of every block hold what the test writes there: their own number."""
    backing = FakeBacking(block_size)
    backing.memory = [{s: (g, s) for s in range(num_blocks * block_size)} for g in range(2)]
    groups = (GROUP,) * num_groups
    return make_manager(num_blocks, block_size, groups=groups, backing=backing, **config), backing


def runs(backing: FakeBacking) -> list[tuple[int, int]]:
    """(first position, tokens) of every run saved."""
    return [(save.run.home, len(save.run.tokens)) for save in backing.runs]


def test_runs_of_sixteen_blocks_while_it_runs_and_the_rest_at_the_end() -> None:
    manager, backing = tiered()
    tokens = tokens_from(0, 45)
    kv = manager.begin(tokens)
    for end in (10, 16, 20, 31, 40, 45):
        assert manager.allocate(kv, end) is not None
        manager.commit(kv, tokens[:end])
    assert runs(backing) == [(0, 16), (16, 24)]
    manager.free(kv, tokens)
    assert runs(backing) == [(0, 16), (16, 24), (40, 5)]


@pytest.mark.report("S53")
@pytest.mark.parametrize("num_groups", [1, 2])
def test_the_tail_comes_with_its_tokens_only(num_groups: int) -> None:
    manager, backing = tiered(block_size=4, num_groups=num_groups)
    tokens = tokens_from(0, 11)
    run(manager, tokens)
    (save,) = backing.runs
    keys = BlockKeys(b"", tokens, 4)
    assert save.run.keys == tuple(keys.span(0, 3)) and save.run.parent == keys.parent(0)
    assert save.run.tokens.tolist() == tokens.tolist()
    assert [len(ids) for ids in save.block_ids] == [3] * num_groups
    backing.finish_all()
    assert [len(kept.tokens) for kept in backing.kept.values()] == [4, 4, 3]


def test_nothing_is_saved_twice() -> None:
    manager, backing = tiered(block_size=4)
    run(manager, tokens_from(0, 11))
    run(manager, tokens_from(0, 11))
    run(manager, tokens_from(0, 17))
    assert runs(backing) == [(0, 11), (8, 9)]


def test_what_a_failed_step_did_not_commit_is_not_saved() -> None:
    manager, backing = tiered(block_size=4)
    tokens = tokens_from(0, 30)
    kv = manager.begin(tokens)
    manager.allocate(kv, 9)
    manager.commit(kv, tokens[:9])
    manager.allocate(kv, 30)
    manager.free(kv, tokens[:0])
    assert runs(backing) == [(0, 8)]


def test_reuse_none_has_no_tiers() -> None:
    manager, backing = tiered(reuse="none")
    run(manager, tokens_from(0, 20))
    assert not backing.runs and not backing.num_matches
    manager, backing = tiered()
    kv = manager.begin(tokens_from(0, 20), reuse=False)
    manager.extend_hit(kv)
    manager.allocate(kv, 20)
    manager.free(kv, tokens_of())
    assert not backing.runs and not backing.num_matches


@pytest.mark.report("S27")
def test_match_asks_no_tier_and_begin_neither() -> None:
    manager, backing = tiered()
    run(manager, tokens_from(0, 20))
    manager.match(tokens_from(0, 20))
    kv = manager.begin(tokens_from(0, 20))
    assert backing.num_matches == 0
    manager.extend_hit(kv)
    assert backing.num_matches == 1


def evicted(tokens: Tokens, **options: int) -> tuple[CacheManager, FakeBacking]:
    """Everything is below, nothing in the pool."""
    manager, backing = tiered(block_size=4, **options)
    run(manager, tokens)
    backing.finish_all()
    manager.clear()
    return manager, backing


def test_a_hit_below_reserves_blocks_and_holds_them_twice() -> None:
    manager, _ = evicted(tokens_from(0, 11))
    kv = manager.begin(tokens_from(0, 14))
    manager.extend_hit(kv)
    assert kv.num_cached == 11 and manager.num_available_blocks == manager.num_blocks
    assert manager.allocate(kv, 14) == []
    load = kv.load
    assert load is not None and [block.num_tokens for block in load.blocks] == [4, 4, 3]
    blocks = kv.tables[0].ids(0, 3)
    assert load.block_ids[0].tolist() == blocks.tolist()
    assert manager.groups[0].pool.ref_count[blocks].tolist() == [2, 2, 2]
    assert load.claim() and not load.claim()
    load.end()
    manager.commit(kv, tokens_from(0, 14))
    manager.release_ended_transfers()
    assert manager.groups[0].pool.ref_count[blocks].tolist() == [1, 1, 1]
    assert manager.stats.loaded_blocks == 3 and manager.stats.loaded_tokens == 11
    assert manager.stats.hit_tokens == 11
    manager.check_integrity([kv])


def test_the_pool_is_cut_to_a_block_only_for_more() -> None:
    manager, backing = evicted(tokens_from(0, 11))
    run(manager, tokens_from(0, 7))
    for length, hit, from_pool in [(7, 7, 2), (8, 8, 1), (11, 11, 1), (14, 11, 1)]:
        kv = manager.begin(tokens_from(0, length))
        manager.extend_hit(kv)
        assert (kv.num_cached, kv.tables[0].num_entries) == (hit, from_pool)
        manager.check_integrity([kv])
        manager.free(kv, tokens_of())
    backing.finish_all()
    manager.release_ended_transfers()
    assert manager.num_available_blocks == manager.num_blocks


def test_aligned_hits_and_the_chain_take_whole_blocks() -> None:
    manager, _ = evicted(tokens_from(0, 23))
    for align, hit in [(1, 23), (4, 20), (8, 16), (16, 16)]:
        kv = manager.begin(tokens_from(0, 23), align=align)
        manager.extend_hit(kv, align=align)
        assert kv.num_cached == hit
        manager.free(kv, tokens_of())
    kv = manager.begin(tokens_from(0, 20), align=4)
    manager.extend_hit(kv, align=4)
    assert kv.num_cached == 16


@pytest.mark.report("S27")
def test_a_load_without_room_changes_nothing() -> None:
    manager, _ = evicted(tokens_from(0, 11), num_blocks=4)
    other = manager.begin(tokens_from(50, 8))
    manager.allocate(other, 8)
    kv = manager.begin(tokens_from(0, 11))
    manager.extend_hit(kv)
    assert manager.allocate(kv, 11) is None and kv.load is None and kv.num_tokens == 0
    manager.check_integrity([kv, other])
    manager.free(other, tokens_of())
    assert manager.allocate(kv, 11) == [] and kv.load is not None


def test_a_load_that_was_never_started_is_over_with_its_step() -> None:
    manager, _ = evicted(tokens_from(0, 11))
    kv = manager.begin(tokens_from(0, 11))
    manager.extend_hit(kv)
    manager.allocate(kv, 11)
    load = kv.load
    manager.free(kv, tokens_of())
    assert load is not None and load.has_ended
    assert manager.num_available_blocks == manager.num_blocks
    manager.check_integrity()


@pytest.mark.report("S52")
def test_blocks_of_a_save_are_not_handed_out_before_it_ended() -> None:
    manager, backing = tiered(num_blocks=4, block_size=4)
    run(manager, tokens_from(0, 14))
    (save,) = backing.runs
    assert manager.num_available_blocks == 0
    kv = manager.begin(tokens_from(100, 3))
    assert not save.has_ended
    assert manager.allocate(kv, 3) == [], "it waited"
    assert save.has_ended
    manager.check_integrity([kv])


@pytest.mark.report("S52")
def test_a_partial_block_is_not_continued_in_place_while_it_is_copied() -> None:
    manager, backing = tiered(block_size=4)
    run(manager, tokens_from(0, 6))
    kv = manager.begin(tokens_from(0, 9))
    copies = manager.allocate(kv, 9)
    assert copies is not None and [copy.num_slots for copy in copies] == [2]
    manager.free(kv, tokens_of())
    backing.finish_all()
    manager.release_ended_transfers()
    kv = manager.begin(tokens_from(0, 9))
    assert manager.allocate(kv, 9) == []


def test_promoted_blocks_are_written_once_more() -> None:
    manager, backing = evicted(tokens_from(0, 11))
    backing.runs.clear()
    backing.is_promoted = lambda block: block.key != keys.key(0)  # type: ignore[method-assign]
    keys = BlockKeys(b"", tokens_from(0, 11), 4)
    kv = manager.begin(tokens_from(0, 11))
    manager.extend_hit(kv)
    manager.allocate(kv, 11)
    load = kv.load
    assert load is not None and load.claim()
    backing.load(load)
    load.end()
    manager.commit(kv, tokens_from(0, 11))
    manager.free(kv, tokens_from(0, 11))
    assert runs(backing) == [(4, 4)]


def test_keys_go_on_behind_a_partial_block() -> None:
    keys = BlockKeys(b"n", tokens_from(0, 6), 4)
    partial = keys.key(1)
    assert partial == keys.partial(1, tokens_of(4, 5))
    keys.extend(tokens_from(0, 5))
    assert keys.key(1) == partial
    keys.extend(tokens_from(0, 13))
    whole = BlockKeys(b"n", tokens_from(0, 13), 4)
    assert keys.span(0, 4) == whole.span(0, 4) and keys.key(1) != partial
    assert np.array_equal(keys.tokens, whole.tokens)
