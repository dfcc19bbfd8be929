from __future__ import annotations

import numpy as np
import pytest
from cache.walks import make_manager, run, tokens_from

from kvtool.cache.stats import internal_fragmentation


def test_counters_after_a_scripted_run() -> None:
    manager = make_manager(6)
    run(manager, tokens_from(0, 10))
    run(manager, tokens_from(0, 10))
    run(manager, np.concatenate([tokens_from(0, 5), tokens_from(50, 5)]))
    assert manager.stats.as_dict() == {
        "requests": 3,
        "queried_tokens": 30,
        "hit_tokens": 15,
        "full_hit_recomputed": 0,
        "stored_blocks": 5,
        "evicted_blocks": 0,
        "duplicate_blocks": 0,
        "collisions": 0,
        "copied_blocks": 1,
        "taken_over_blocks": 0,
        "loaded_blocks": 0,
        "loaded_tokens": 0,
        "shifted_tokens": 0,
        "recomputed_tokens": 0,
        "approximate_records": 0,
        "approximate_tokens": 0,
        "dropped_tokens": 0,
        "refused_runs": {},
        "hit_rate": 0.5,
    }
    assert manager.peak_held_blocks == 4


def test_an_unused_cache_has_a_hit_rate_of_zero() -> None:
    assert make_manager(1).stats.hit_rate == 0.0


def test_fragmentation_counts_a_shared_block_once() -> None:
    manager = make_manager(16)
    tree = manager.groups[0].tree
    assert internal_fragmentation(tree, []) == 0.0
    first = manager.begin(tokens_from(0, 6))
    manager.allocate(first, 6)
    assert internal_fragmentation(tree, first.tables) == pytest.approx(2 / 8)
    manager.commit(first, tokens_from(0, 6))
    second = manager.begin(tokens_from(0, 5))
    manager.allocate(second, 5)
    tables = (*first.tables, *second.tables)
    assert internal_fragmentation(tree, tables) == pytest.approx((2 + 3) / 12)


def test_fragmentation_stays_below_four_percent_for_usual_lengths() -> None:
    """Lengths log-uniform in 64…2048, blocks of 16 tokens (vLLM's paper states < 4 %)."""
    rng = np.random.default_rng(0)
    manager = make_manager(10_000, 16)
    tables = []
    for length in np.exp(rng.uniform(np.log(64), np.log(2048), 200)).astype(int).tolist():
        kv = manager.begin(rng.integers(0, 1000, length, dtype=np.int32))
        assert manager.allocate(kv, length) is not None
        tables.extend(kv.tables)
    share = internal_fragmentation(manager.groups[0].tree, tables)
    print(f"internal fragmentation {share:.2%}")
    assert 0 < share < 0.04
