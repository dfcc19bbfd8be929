"""Bad hash functions cost hits, never correctness: tokens and parents decide."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cache.walks import make_manager, run, tokens_from, tokens_of
from cache.weak_indexes import WEAK

weak_indexes = pytest.mark.parametrize("index", WEAK.values(), ids=WEAK)


@pytest.mark.report("S66")
@weak_indexes
def test_other_tokens_under_the_same_key_are_a_miss(index: Callable[..., object]) -> None:
    manager = make_manager(16, index=index)
    run(manager, tokens_of(0, 1, 2, 3))
    assert manager.match(tokens_of(0, 1, 2, 3)) == 4
    assert manager.match(tokens_of(5, 1, 2, 3)) == 0
    run(manager, tokens_of(5, 1, 2, 3, 6, 1, 2, 3))
    assert manager.match(tokens_of(5, 1, 2, 3)) in (0, 4)
    manager.check_integrity()


@pytest.mark.report("S66")
@weak_indexes
def test_the_same_tokens_behind_another_prefix_or_namespace_are_a_miss(
    index: Callable[..., object],
) -> None:
    manager = make_manager(16, index=index)
    run(manager, tokens_of(0, 1, 2, 3, 0, 1, 2, 3), b"a")
    assert manager.match(tokens_of(0, 1, 2, 3), b"b") == 0
    run(manager, tokens_of(9, 9, 9, 9), b"b")
    assert manager.match(tokens_of(0, 1, 2, 3), b"b") == 0
    assert manager.match(tokens_of(9, 9, 9, 9, 0, 1, 2, 3), b"b") <= 4
    manager.check_integrity()


def test_collisions_are_counted() -> None:
    manager = make_manager(16, index=WEAK["chain, one hash"])
    run(manager, tokens_from(0, 4))
    assert manager.stats.collisions == 0
    run(manager, tokens_from(100, 4))
    assert manager.stats.collisions == 2, "one at the lookup, one when it could not be indexed"
    assert manager.match(tokens_from(0, 4)) == 4, "the first one stays"
    assert manager.num_free_blocks == 15


def test_a_collision_ends_the_indexed_part_of_a_request() -> None:
    manager = make_manager(16, index=WEAK["chain, one hash"])
    tokens = tokens_from(0, 12)
    kv = manager.begin(tokens)
    manager.allocate(kv, 12)
    manager.commit(kv, tokens)
    assert kv.num_committed_blocks == 1
    manager.check_integrity([kv])
    manager.free(kv, tokens)
    assert manager.match(tokens) == 4
    assert manager.num_free_blocks == 15
    manager.check_integrity()
