"""Advice on settings: what they gain, to the token."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from advice.chat_traces import EXAMPLES, advised, opened, served, system, user, words, workload

from kvtool.advice.pinned_replay import Prefix, replay_pinned
from kvtool.analysis.policies import policy as analysed
from kvtool.cache import eviction
from kvtool.cache.eviction import BlockUse, Rank
from kvtool.config import EngineConfig
from kvtool.errors import CacheError
from kvtool.simulation.settings import SimulationSettings


def hash_rows(*requests: list[int], **fields: Any) -> list[dict[str, Any]]:
    return [
        {"timestamp": n, "input_length": 512 * len(ids), "output_length": 1, "hash_ids": ids}
        | fields
        for n, ids in enumerate(requests)
    ]


def test_capacity(tmp_path: Path) -> None:
    load = workload(tmp_path, hash_rows([1, 2, 3], [4, 5, 6], [1, 2, 3], [4, 5, 6]))
    found = advised(load, num_blocks=3)["capacity"]
    assert found.command == "--capacity 6"
    assert found.before[:2] == (6144, 0)
    assert found.after[:2] == (6144, 3072)
    assert "LRU finds 95 % of what" in found.why
    # A prompt that is found completely computes its last token.
    assert found.gain_tokens == 2 * (3 * 512 - 1)


def test_capacity_for_more_than_the_first_share(tmp_path: Path) -> None:
    """40 blocks are asked for again at once, one when 9 others have been: 95 % are found already."""
    often = [n for n in range(1, 41) for _ in (0, 1)]
    rare = [100, *range(101, 110), 100]
    found = advised(workload(tmp_path, hash_rows(*([n] for n in often + rare))), num_blocks=1)
    assert found["capacity"].command == "--capacity 10"
    assert "LRU finds 99 % of what" in found["capacity"].why
    assert found["capacity"].gain_tokens == 512 - 1


def test_no_capacity_for_a_gain_not_worth_it(tmp_path: Path) -> None:
    """The same with more that is only asked for once: less than a hundredth of the misses."""
    once = list(range(200, 300))
    rows = hash_rows(*([n] for n in [100, *once, 100]))
    assert "capacity" not in advised(workload(tmp_path, rows), num_blocks=1)


def test_no_capacity_where_nothing_is_evicted(tmp_path: Path) -> None:
    load = workload(tmp_path, hash_rows([1, 2, 3], [4, 5, 6], [1, 2, 3], [4, 5, 6]))
    assert advised(load, num_blocks=6) == {}


def scans() -> list[list[int]]:
    """A prefix of two blocks, and enough others between its uses to push it out of five."""
    found = []
    for n in range(4):
        found += [[1, 2, 100 + n], [200 + n, 210 + n, 220 + n], [300 + n, 310 + n, 320 + n]]
    return found


def test_pinning(tmp_path: Path) -> None:
    found = advised(workload(tmp_path, hash_rows(*scans())), num_blocks=5)["pinning"]
    assert found.before.hit_tokens == 0
    assert found.after.hit_tokens == found.gain_tokens == 3 * 1024
    assert "4 requests begin with it" in found.why and "3,072 of its tokens" in found.why


def test_a_pinned_block_stays_and_takes_room(tmp_path: Path) -> None:
    load, settings = workload(tmp_path, hash_rows(*scans())), SimulationSettings()
    first = next(iter(load))
    prefix = Prefix(first.symbols[:1], first.namespace)
    assert served(load, num_blocks=4).hit_tokens == 0
    assert replay_pinned(load, settings, 4, prefix).hit_tokens == 3 * 512
    with pytest.raises(CacheError):
        replay_pinned(load, settings, 3, prefix)


def test_pinning_by_arrival(tmp_path: Path) -> None:
    load, settings = workload(tmp_path, hash_rows(*scans())), SimulationSettings(mode="arrival")
    first = next(iter(load))
    found = replay_pinned(load, settings, 5, Prefix(first.symbols[:2], first.namespace))
    assert found.requests == 12
    assert found.hit_tokens >= served(load, settings, 5).hit_tokens


def test_eviction(tmp_path: Path) -> None:
    load = workload(tmp_path, hash_rows([1], [1], [2], [3], [1], [4], [5], [1]))
    found = advised(load, num_blocks=2)["eviction"]
    assert found.before.hit_tokens == 512
    assert found.after.hit_tokens == 3 * 512
    assert found.command in ("--evict lfu", "--evict slru")


def newest_first(use: BlockUse) -> Rank:
    return (-use.last_use,)


@pytest.fixture
def tables() -> Iterator[tuple[dict[str, str], ...]]:
    """Those of the engine and of analysis, which is made from it; put back in their order."""
    both = eviction.POLICIES, analysed.POLICIES
    saved = [dict(table) for table in both]
    yield both
    for table, before in zip(both, saved):
        table.clear()
        table.update(before)


def test_a_new_policy_of_the_engine_is_advised(
    tmp_path: Path, tables: tuple[dict[str, str], ...]
) -> None:
    """One line in the engine's table is all it takes; the others are gone, so that none ties."""
    for name in tables[0].keys() - {"lru"}:
        del tables[0][name]
    for table in tables:
        table["newest-first"] = f"{__name__}:newest_first"
    load = workload(tmp_path, hash_rows(*([n] for n in (1, 2, 3) * 4)))
    found = advised(load, num_blocks=2)["eviction"]
    assert found.command == "--evict newest-first"
    assert found.before.hit_tokens == 0 < found.after.hit_tokens


def test_block_size(tmp_path: Path) -> None:
    """40 shared tokens hold two blocks of 16, or five of 8."""
    rows = [
        {"messages": [system(words(28)), user(words(40, 1000 * n))], "timestamp": n}
        for n in range(1, 5)
    ]
    settings = SimulationSettings(engine=EngineConfig(prefix_index="chain", block_size=16))
    found = advised(workload(tmp_path, rows), settings)["block-size"]
    assert found.command == "--block-size 8"
    assert found.before.prompt_tokens == found.after.prompt_tokens
    assert found.gain_tokens == 3 * 8


def test_shifted_reuse_counts_repairs() -> None:
    load = opened(EXAMPLES / "upload-first.jsonl")
    found = advised(load)["shifted-reuse"]
    totals = served(load, SimulationSettings(engine=EngineConfig(reuse="shift")))
    assert totals.recomputed_tokens > 0
    assert found.after.work_tokens == totals.computed_tokens + totals.recomputed_tokens
    assert found.gain_tokens == found.before.work_tokens - found.after.work_tokens > 0


def test_none_is_given_twice() -> None:
    settings = SimulationSettings(engine=EngineConfig(reuse="shift"))
    assert "shifted-reuse" not in advised(opened(EXAMPLES / "upload-first.jsonl"), settings)
