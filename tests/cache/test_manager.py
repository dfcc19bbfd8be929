"""One rule of the manager a test: exact block ids, exact copies."""

from __future__ import annotations

import numpy as np
import pytest
from cache.walks import GROUP, make_manager, run, tokens_from, tokens_of, uses_of

from kvtool.cache.manager import BlockCopy

NOTHING = tokens_from(0, 0)
both_indexes = pytest.mark.parametrize("prefix_index", ["radix", "chain"])


@both_indexes
def test_sixteen_tokens_take_one_block_the_seventeenth_a_second(prefix_index: str) -> None:
    manager = make_manager(4, 16, prefix_index=prefix_index)
    kv = manager.begin(tokens_from(0, 17))
    assert manager.allocate(kv, 16) == []
    assert kv.tables[0].block_ids == [0]
    assert manager.allocate(kv, 17) == []
    assert kv.tables[0].block_ids == [0, 1]
    assert manager.num_free_blocks == 2


@pytest.mark.report("S02")
@both_indexes
@pytest.mark.parametrize("num_tokens", [16, 32])
def test_full_hit_in_a_pool_of_exactly_its_blocks(prefix_index: str, num_tokens: int) -> None:
    """All blocks are cached, none is free: nothing is allocated, evicted or copied."""
    manager = make_manager(num_tokens // 16, 16, prefix_index=prefix_index)
    tokens = tokens_from(0, num_tokens)
    run(manager, tokens)
    assert manager.num_free_blocks == 0
    kv = manager.begin(tokens)
    assert kv.num_cached == num_tokens
    assert manager.allocate(kv, num_tokens) == []
    manager.commit(kv, tokens[:-1])
    manager.stats.count_full_hit()
    manager.check_integrity([kv])
    manager.free(kv, tokens[:-1])
    stats = manager.stats
    assert (stats.evicted_blocks, stats.copied_blocks, stats.taken_over_blocks) == (0, 0, 0)
    assert (stats.queried_tokens, stats.hit_tokens) == (2 * num_tokens, num_tokens)
    assert stats.full_hit_recomputed == 1
    assert manager.match(tokens) == num_tokens


@pytest.mark.report("S02")
def test_full_hit_that_ends_inside_a_block() -> None:
    """33 tokens in a pool of three blocks: hit 33, the partial block is continued in place."""
    manager = make_manager(3, 16)
    tokens = tokens_from(0, 33)
    run(manager, tokens)
    kv = manager.begin(tokens)
    assert kv.num_cached == 33
    assert manager.allocate(kv, 33) == []
    assert manager.allocate(kv, 34) == []
    assert kv.tables[0].block_ids == [0, 1, 2]
    assert (manager.stats.taken_over_blocks, manager.stats.copied_blocks) == (1, 0)
    manager.check_integrity([kv])


def test_partial_tail_is_copied_while_someone_else_holds_it() -> None:
    manager = make_manager(8)
    run(manager, tokens_from(0, 6))
    first = manager.begin(tokens_from(0, 6))
    second = manager.begin(np.concatenate([tokens_from(0, 6), tokens_of(50)]))
    assert first.num_cached == second.num_cached == 6
    assert manager.allocate(second, 7) == [BlockCopy(group=0, source=1, target=2, num_slots=2)]
    assert second.tables[0].entries.tolist() == [[0, 0, 0, 4, 0], [2, 0, 4, 3, 0]]
    manager.check_integrity([first, second])
    manager.free(first, NOTHING)
    assert manager.groups[0].pool.ref_count[1] == 1, "the source waits for the copy"
    manager.check_integrity([second])
    manager.commit(second, np.concatenate([tokens_from(0, 6), tokens_of(50)]))
    assert manager.groups[0].pool.ref_count[1] == 0
    assert manager.match(tokens_from(0, 6)) == 6


def test_a_prefix_of_a_full_block_is_copied() -> None:
    manager = make_manager(8)
    run(manager, tokens_from(0, 8))
    tokens = tokens_of(0, 1, 2, 3, 4, 5, 99)
    kv = manager.begin(tokens)
    assert kv.num_cached == 6
    assert manager.allocate(kv, 7) == [BlockCopy(group=0, source=1, target=2, num_slots=2)]
    manager.check_integrity([kv])
    manager.free(kv, tokens)
    assert manager.match(tokens) == 7
    assert manager.match(tokens_from(0, 8)) == 8
    manager.check_integrity()


def test_a_shorter_match_of_a_partial_block_is_copied() -> None:
    manager = make_manager(8)
    run(manager, tokens_from(0, 7))
    kv = manager.begin(tokens_of(0, 1, 2, 3, 4, 88, 89))
    assert kv.num_cached == 5
    assert manager.allocate(kv, 7) == [BlockCopy(group=0, source=1, target=2, num_slots=1)]
    assert manager.match(tokens_from(0, 7)) == 7


def test_taking_over_ends_the_entry_of_the_partial_block() -> None:
    manager = make_manager(2)
    run(manager, tokens_from(0, 6))
    tokens = tokens_from(0, 8)
    kv = manager.begin(tokens)
    assert kv.num_cached == 6
    assert manager.allocate(kv, 8) == [], "the pool has no block for a copy"
    assert manager.match(tokens) == 4
    manager.commit(kv, tokens)
    assert manager.match(tokens) == 8
    manager.check_integrity([kv])
    manager.free(kv, tokens)
    assert manager.num_available_blocks == 2


def test_chain_matches_full_blocks_only() -> None:
    manager = make_manager(8, prefix_index="chain")
    run(manager, tokens_from(0, 7))
    assert manager.match(tokens_from(0, 7)) == 4
    assert manager.num_free_blocks == 7


@pytest.mark.report("S13")
@pytest.mark.parametrize(
    ("prefix_index", "block_size", "hit"),
    [("radix", 1, 149), ("radix", 16, 149), ("chain", 1, 149), ("chain", 16, 144)],
)
def test_generated_tokens_enter_the_cache(prefix_index: str, block_size: int, hit: int) -> None:
    """100 prompt + 50 generated; the last one was never fed back, so its KV does not exist."""
    manager = make_manager(300, block_size, prefix_index=prefix_index)
    tokens = tokens_from(0, 200)
    kv = manager.begin(tokens[:100])
    for end in range(100, 150):
        assert manager.allocate(kv, end) == []
        manager.commit(kv, tokens[:end])
    manager.free(kv, tokens[:149])
    assert manager.match(tokens) == hit


@pytest.mark.report("S32")
@both_indexes
def test_twins_end_up_on_one_block(prefix_index: str) -> None:
    manager = make_manager(8, prefix_index=prefix_index)
    tokens = tokens_from(0, 9)
    first, second = manager.begin(tokens), manager.begin(tokens)
    assert manager.allocate(first, 9) == manager.allocate(second, 9) == []
    assert second.tables[0].block_ids == [3, 4, 5]
    manager.commit(first, tokens)
    manager.commit(second, tokens)
    assert second.tables[0].block_ids == [0, 1, 5]
    assert manager.stats.duplicate_blocks == 2
    manager.check_integrity([first, second])
    manager.free(first, tokens)
    manager.check_integrity([second])
    assert manager.match(tokens) >= 8, "freeing one twin leaves the entry"
    manager.free(second, tokens)
    manager.check_integrity()
    cached = 3 if prefix_index == "radix" else 2
    assert manager.num_blocks - manager.num_free_blocks == cached, "one partial leaf, not two"


@pytest.mark.report("S27")
@both_indexes
def test_hits_on_unreferenced_blocks_are_charged(prefix_index: str) -> None:
    """Four blocks, all cached and unreferenced; hit two, need three more: two are left."""
    manager = make_manager(4, prefix_index=prefix_index)
    run(manager, tokens_from(0, 16))
    tokens = np.concatenate([tokens_from(0, 8), tokens_from(500, 12)])
    kv = manager.begin(tokens)
    assert (kv.num_cached, manager.num_available_blocks) == (8, 2)
    assert manager.allocate(kv, 20) is None
    assert manager.match(tokens_from(0, 16)) == 16, "the failure evicted nothing"
    assert manager.allocate(kv, 16) == []
    manager.check_integrity([kv])


@pytest.mark.report("S27")
@both_indexes
def test_a_block_is_visible_only_when_full_and_computed(prefix_index: str) -> None:
    manager = make_manager(8, 8, prefix_index=prefix_index)
    tokens = tokens_from(0, 8)
    kv = manager.begin(tokens)
    manager.allocate(kv, 8)
    assert manager.match(tokens) == 0
    manager.commit(kv, tokens[:6])
    assert manager.match(tokens) == 0
    manager.commit(kv, tokens)
    assert manager.match(tokens) == 8


@pytest.mark.report("S26")
@both_indexes
def test_a_preempted_request_hits_its_own_blocks_once(prefix_index: str) -> None:
    manager = make_manager(3, prefix_index=prefix_index)
    tokens = tokens_from(0, 12)
    kv = manager.begin(tokens)
    manager.allocate(kv, 8)
    manager.free(kv, tokens[:8])
    again = manager.begin(tokens)
    assert (again.num_cached, again.num_tokens, again.num_committed_blocks) == (8, 8, 2)
    assert manager.allocate(again, 12) == []
    assert again.tables[0].block_ids == [0, 1, 2]
    manager.check_integrity([again])


@pytest.mark.report("S01")
@both_indexes
def test_no_entry_outlives_its_block(prefix_index: str) -> None:
    """X, then Y over the same blocks, then X again."""
    manager = make_manager(4, prefix_index=prefix_index)
    x, y = tokens_from(0, 12), tokens_from(100, 12)
    run(manager, x)
    run(manager, y)
    assert manager.match(x) <= 4, "at most the block Y did not need"
    for _ in range(20):
        run(manager, x)
        run(manager, y)
        manager.check_integrity()
    assert len(manager.groups[0].tree._tops) <= 4


@both_indexes
def test_aligned_hits_leave_a_token_to_compute(prefix_index: str) -> None:
    manager = make_manager(8, prefix_index=prefix_index)
    run(manager, tokens_from(0, 16))
    assert manager.begin(tokens_from(0, 16), align=8).num_cached == 8
    assert manager.begin(tokens_from(0, 17), align=8).num_cached == 16
    assert manager.begin(tokens_from(0, 15), align=16).num_cached == 0


@both_indexes
def test_reuse_can_be_declined(prefix_index: str) -> None:
    manager = make_manager(8, prefix_index=prefix_index)
    run(manager, tokens_from(0, 8))
    kv = manager.begin(tokens_from(0, 8), reuse=False)
    assert manager.allocate(kv, 8) == []
    assert (kv.num_cached, kv.tables[0].block_ids) == (0, [2, 3])
    assert manager.stats.queried_tokens == 8, "no query"
    manager.commit(kv, tokens_from(0, 8))
    assert kv.tables[0].block_ids == [0, 1], "but its blocks are found to be twins"
    manager.check_integrity([kv])


def test_reuse_none_stores_nothing() -> None:
    manager = make_manager(8, reuse="none")
    run(manager, tokens_from(0, 9))
    assert manager.match(tokens_from(0, 9)) == 0
    assert manager.num_free_blocks == 8
    manager.check_integrity()


@both_indexes
def test_an_abort_keeps_nothing_uncommitted(prefix_index: str) -> None:
    manager = make_manager(8, prefix_index=prefix_index)
    tokens = tokens_from(0, 12)
    kv = manager.begin(tokens)
    manager.allocate(kv, 12)
    manager.commit(kv, tokens[:5])
    manager.free(kv, NOTHING)
    assert (manager.match(tokens), manager.num_free_blocks) == (4, 7)
    manager.check_integrity()


def test_a_request_without_room_is_not_counted() -> None:
    manager = make_manager(2)
    run(manager, tokens_from(0, 4))
    tree = manager.groups[0].tree
    before = (manager.stats.as_dict(), uses_of(tree))
    for _ in range(3):
        kv = manager.begin(tokens_from(0, 12))
        assert manager.allocate(kv, 12) is None
        manager.free(kv, NOTHING)
    assert (manager.stats.as_dict(), uses_of(tree)) == before
    manager.check_integrity()


def test_a_hit_is_what_every_group_has() -> None:
    manager = make_manager(8, groups=(GROUP, GROUP))
    run(manager, tokens_from(0, 16))
    second = manager.groups[1]
    second._evict(2)
    assert [group.match(tokens_from(0, 16), b"").num_tokens for group in manager.groups] == [16, 8]
    kv = manager.begin(tokens_from(0, 16))
    assert kv.num_cached == 8
    assert [table.block_ids for table in kv.tables] == [[0, 1], [0, 1]]
    assert manager.allocate(kv, 16) == []
    manager.commit(kv, tokens_from(0, 16))
    assert kv.tables[0].block_ids == [0, 1, 2, 3], "canonical again in the first group"
    manager.check_integrity([kv])


def test_all_groups_get_blocks_or_none() -> None:
    manager = make_manager(4, groups=(GROUP, GROUP))
    blocks = manager.groups[1].pool.allocate(2)
    kv = manager.begin(tokens_from(0, 12))
    assert manager.num_free_blocks == 2
    assert manager.allocate(kv, 12) is None
    assert manager.groups[0].pool.num_free == 4
    manager.groups[1].let_go(blocks)
    assert manager.allocate(kv, 12) == []


@pytest.mark.report("S65")
@both_indexes
def test_namespaces_never_share(prefix_index: str) -> None:
    """Tenant A's prefix: tenant B finds nothing, A finds it."""
    manager = make_manager(8, prefix_index=prefix_index)
    run(manager, tokens_from(0, 10), b"salt a")
    assert manager.match(tokens_from(0, 10), b"salt b") == 0
    assert manager.match(tokens_from(0, 10)) == 0
    assert run(manager, tokens_from(0, 10), b"salt b").num_cached == 0
    assert run(manager, tokens_from(0, 10), b"salt a").num_cached >= 8
    manager.check_integrity()


@both_indexes
def test_clear_forgets_everything(prefix_index: str) -> None:
    manager = make_manager(8, prefix_index=prefix_index)
    run(manager, tokens_from(0, 20))
    manager.clear()
    assert (manager.match(tokens_from(0, 20)), manager.num_free_blocks) == (0, 8)
    manager.check_integrity()
    assert run(manager, tokens_from(0, 20)).num_cached == 0
