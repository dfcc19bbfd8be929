"""The short way of a request that nothing happens beside equals begin, allocate and free."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cache.walks import cached_texts, make_manager, new_tokens, run, tokens_from
from cache.weak_indexes import WEAK

from kvtool.cache.eviction import POLICIES
from kvtool.cache.group_cache import GroupCache
from kvtool.cache.index import INDEXES
from kvtool.cache.manager import CacheManager, Tokens

NUM_REQUESTS = 120


def contents(group: GroupCache) -> object:
    """Of the cached blocks, and how each of them was used: in which order, how often, for whom."""
    cached = sorted(group.tree.blocks())
    uses = [group.tree.use(block) for block in cached]
    return (
        cached_texts(group.tree),
        ranks([use.last_use for use in uses]),
        ranks([use.created for use in uses]),
        [(use.hits, use.priority) for use in uses],
    )


def ranks(ticks: list[int]) -> list[int]:
    """The two ways count different ticks."""
    order = sorted(set(ticks))
    return [order.index(tick) for tick in ticks]


def short_way(
    manager: CacheManager, tokens: Tokens, namespace: bytes, priority: int
) -> tuple[int, list[int]] | None:
    passed = manager.pass_through(tokens, namespace, priority)
    if passed is None:
        return None
    return len(passed[0]) * manager.config.block_size, [*passed[0], *passed[1]]


def long_way(
    manager: CacheManager, tokens: Tokens, namespace: bytes, priority: int
) -> tuple[int, list[int]]:
    kv = manager.begin(tokens, namespace, priority=priority)
    assert manager.allocate(kv, len(tokens)) is not None
    found = kv.num_cached, kv.tables[0].block_ids
    manager.free(kv, tokens)
    return found


def check_equal(num_blocks: int, block_size: int, seed: int, **config: Any) -> int:
    """How many requests went the short way."""
    rng = np.random.default_rng(seed)
    short = make_manager(num_blocks, block_size, **config)
    long = make_manager(num_blocks, block_size, **config)
    history: list[Tokens] = []
    num_short = 0
    for _ in range(NUM_REQUESTS):
        tokens = new_tokens(rng, history, block_size)
        most = min(len(tokens) // block_size, num_blocks - 1)  # a copy may take another one
        tokens = tokens[: most * block_size]
        if not len(tokens):
            continue
        history.append(tokens)
        namespace = [b"", b"", b"other"][int(rng.integers(3))]
        priority = int(rng.integers(3))
        found = short_way(short, tokens, namespace, priority)
        num_short += found is not None
        if found is None:
            found = long_way(short, tokens, namespace, priority)
        assert found == long_way(long, tokens, namespace, priority)
        short.check_integrity()
        assert short.stats.as_dict() == long.stats.as_dict()
        groups = [manager.groups[0] for manager in (short, long)]
        assert contents(groups[0]) == contents(groups[1])
        assert groups[0].pool.peak_held == groups[1].pool.peak_held
    return num_short


@pytest.mark.parametrize("evict", POLICIES)
@pytest.mark.parametrize("prefix_index", INDEXES)
@pytest.mark.parametrize("num_blocks", [8, 60])
def test_blocks_of_one_token(prefix_index: str, evict: str, num_blocks: int) -> None:
    for seed in range(2):
        config = {"prefix_index": prefix_index, "evict": evict}
        assert check_equal(num_blocks, 1, seed, **config) > NUM_REQUESTS // 2


@pytest.mark.parametrize("prefix_index", INDEXES)
def test_full_blocks_of_text(prefix_index: str) -> None:
    assert sum(check_equal(9, 4, seed, prefix_index=prefix_index) for seed in range(6)) > 20


@pytest.mark.parametrize("index", WEAK.values(), ids=WEAK)
@pytest.mark.parametrize("block_size", [1, 4])
def test_keys_that_collide(index: Any, block_size: int) -> None:
    for seed in range(2):
        check_equal(9, block_size, seed, index=index)


def test_a_partly_filled_block_takes_the_long_way() -> None:
    manager = make_manager(8)
    assert manager.pass_through(tokens_from(0, 6), b"", 0) is None
    run(manager, tokens_from(0, 6))
    assert manager.pass_through(tokens_from(0, 8), b"", 0) is None
    assert manager.match(tokens_from(0, 8)) == 6


def test_what_was_hit_is_not_evicted_for_the_rest() -> None:
    """Under fifo the oldest blocks would go first."""
    manager = make_manager(4, 1, evict="fifo")
    run(manager, tokens_from(0, 2))
    run(manager, tokens_from(10, 2))
    passed = manager.pass_through(tokens_from(0, 4), b"", 0)
    assert passed is not None
    assert passed == ([0, 1], [2, 3])
    assert manager.match(tokens_from(0, 4)) == 4


@pytest.mark.parametrize("config", [{"reuse": "none"}, {"events": print}, {"reuse": "shift"}])
def test_caches_that_have_no_short_way(config: dict[str, Any]) -> None:
    assert make_manager(8, 1, **config).pass_through(tokens_from(0, 4), b"", 0) is None


def test_where_somebody_holds_a_block_it_is_the_long_way() -> None:
    manager = make_manager(8, 1)
    kv = manager.begin(tokens_from(0, 2))
    manager.allocate(kv, 2)
    assert manager.pass_through(tokens_from(5, 2), b"", 0) is None
    manager.free(kv, tokens_from(0, 2))
    assert manager.pass_through(tokens_from(5, 2), b"", 0) is not None
