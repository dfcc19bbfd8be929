"""What radix tree and hash chain find, against brute force and against each other."""

from __future__ import annotations

import numpy as np
import pytest
from cache.walks import cached_texts, make_manager, new_tokens, run, tokens_from, tokens_of, uses_of
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.cache.eviction import POLICIES
from kvtool.cache.index import INDEXES
from kvtool.cache.manager import CacheManager, SequenceKV, Tokens

seeds = st.integers(0, 2**32 - 1)


def common_prefix(a: Tokens, b: Tokens) -> int:
    size = min(len(a), len(b))
    different = np.flatnonzero(a[:size] != b[:size])
    return int(different[0]) if len(different) else size


@pytest.mark.parametrize("block_size", [1, 4, 16])
@settings(max_examples=40)
@given(seed=seeds)
def test_the_longest_prefix_ever_seen_is_found(block_size: int, seed: int) -> None:
    """Nothing is evicted: radix finds it to the token, chain to the block."""
    rng = np.random.default_rng(seed)
    radix = make_manager(2000, block_size, prefix_index="radix")
    chain = make_manager(2000, block_size, prefix_index="chain")
    history: list[Tokens] = []
    for _ in range(30):
        tokens = new_tokens(rng, history, block_size)
        longest = max((common_prefix(tokens, old) for old in history), default=0)
        in_blocks = longest // block_size * block_size
        assert (radix.match(tokens), chain.match(tokens)) == (longest, in_blocks)
        assert run(radix, tokens).num_cached == longest
        assert run(chain, tokens).num_cached == in_blocks
        history.append(tokens)
    radix.check_integrity()
    chain.check_integrity()


@pytest.mark.parametrize("evict", POLICIES)
@pytest.mark.parametrize("block_size", [1, 4])
@settings(max_examples=20)
@given(seed=seeds)
def test_both_give_the_same_hits_and_blocks_in_a_tiny_pool(
    evict: str, block_size: int, seed: int
) -> None:
    """Whole blocks only, so that both store the same: hits, block ids and victims are equal."""
    rng = np.random.default_rng(seed)
    managers = [
        make_manager(8, block_size, prefix_index=name, evict=evict, events=None) for name in INDEXES
    ]
    live: list[tuple[Tokens, list[SequenceKV]]] = []
    history: list[Tokens] = []
    for _ in range(40):
        if live and rng.random() < 0.5:
            tokens, kvs = live.pop(int(rng.integers(len(live))))
            for manager, kv in zip(managers, kvs):
                manager.free(kv, tokens[: kv.num_tokens])
        else:
            tokens = new_tokens(rng, history, block_size)
            tokens = np.resize(tokens, -(-len(tokens) // block_size) * block_size)
            history.append(tokens)
            kvs = [manager.begin(tokens, align=block_size) for manager in managers]
            outcomes = [manager.allocate(kv, len(tokens)) for manager, kv in zip(managers, kvs)]
            assert outcomes[0] == outcomes[1]
            live.append((tokens, kvs))
        assert_same(managers, [kvs for _, kvs in live])


def assert_same(managers: list[CacheManager], live: list[list[SequenceKV]]) -> None:
    for a, b in live:
        assert a.num_cached == b.num_cached
        assert a.tables[0].entries.tolist() == b.tables[0].entries.tolist()
    stats = [manager.stats.as_dict() for manager in managers]
    assert stats[0] == stats[1]
    groups = [manager.groups[0] for manager in managers]
    assert cached_texts(groups[0].tree) == cached_texts(groups[1].tree)
    assert (groups[0].pool.ref_count == groups[1].pool.ref_count).all()


@pytest.mark.parametrize("prefix_index", INDEXES)
def test_match_changes_nothing(prefix_index: str) -> None:
    manager = make_manager(8, prefix_index=prefix_index)
    run(manager, tokens_from(0, 12))
    pool, tree = manager.groups[0].pool, manager.groups[0].tree
    before = (pool.ref_count.tolist(), uses_of(tree))
    stats = manager.stats.as_dict()
    for end in range(1, 20):
        manager.match(tokens_from(0, end))
    assert before == (pool.ref_count.tolist(), uses_of(tree))
    assert stats == manager.stats.as_dict()


def test_the_best_of_many_children_is_found() -> None:
    """Siblings that share 0 to 3 tokens with the prompt, more than two of them in token order."""
    manager = make_manager(64)
    for tail in (
        [9, 9, 9, 9],
        [1, 9, 9, 9],
        [1, 2, 9, 9],
        [1, 2, 3, 9],
        [1, 2, 3, 300],
        [0, 1, 2, 3],
    ):
        run(manager, tokens_of(7, 7, 7, 7, *tail))
    assert manager.match(tokens_of(7, 7, 7, 7, 1, 2, 3, 4)) == 7
    assert manager.match(tokens_of(7, 7, 7, 7, 1, 2, 4, 4)) == 6
    assert manager.match(tokens_of(7, 7, 7, 7, 1, 256, 3, 4)) == 5
    assert manager.match(tokens_of(7, 7, 7, 7, 5, 2, 3, 4)) == 4


def test_an_exactly_matching_partial_block_wins_over_a_longer_one() -> None:
    """It can be continued in place; the longer one would have to be copied."""
    manager = make_manager(16)
    run(manager, tokens_of(1, 2, 3, 4))
    run(manager, tokens_of(1, 2, 3))
    assert manager.stats.stored_blocks == 1, "a prefix of a cached block is not stored again"
    other = make_manager(16)
    run(other, tokens_of(1, 2, 3))
    kv = other.begin(tokens_of(1, 2, 3, 4))
    held = other.begin(tokens_of(1, 2, 3))
    assert len(other.allocate(kv, 4) or []) == 1
    other.free(held, tokens_from(0, 0))
    other.free(kv, tokens_of(1, 2, 3, 4))
    again = other.begin(tokens_of(1, 2, 3, 5))
    assert again.num_cached == 3
    assert other.allocate(again, 4) == [], "taken over"
    assert other.match(tokens_of(1, 2, 3, 4)) == 4
    other.check_integrity([again])


def test_check_integrity_compares_the_hashes_with_the_tree() -> None:
    manager = make_manager(8, prefix_index="chain")
    run(manager, tokens_from(0, 12))
    manager.check_integrity()
    manager.groups[0].tree.behind(1)[0].tokens[17] += 1
    with pytest.raises(AssertionError):
        manager.check_integrity()


def test_check_integrity_counts_holders() -> None:
    manager = make_manager(8)
    kv = manager.begin(tokens_from(0, 4))
    manager.allocate(kv, 4)
    manager.check_integrity([kv])
    with pytest.raises(AssertionError, match="reference counts"):
        manager.check_integrity([])
