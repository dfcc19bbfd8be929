"""The mirror says what host memory and the disk have, whoever changes them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers.disk.disk_runs import (
    BLOCK_SIZE,
    GROUPS,
    NAMESPACE,
    namespace,
    prompt,
    run_files,
    run_of,
    tier_of,
    views_of,
)

from kvtool.cache.block_pool import Tokens
from kvtool.tiers.disk.disk import DiskTier
from kvtool.tiers.host import HostTier
from kvtool.tiers.text.listing import ListsText
from kvtool.tiers.text.mirror import Mirror

OTHER = namespace(salt="other")
BLOCK_BYTES = sum(group.block_bytes(BLOCK_SIZE) for group in GROUPS)


def mirror_of(*tiers: ListsText, space: bytes = NAMESPACE) -> Mirror:
    return Mirror(tiers, space, BLOCK_SIZE)


def seen(mirror: Mirror, tokens: Tokens, space: bytes = NAMESPACE) -> list[int]:
    """Which full blocks of a sequence the mirror has."""
    text = mirror.update()
    mirror.check_integrity()
    newest = text.newest(tokens, space)[::BLOCK_SIZE]
    return [
        number
        for number, block in enumerate(newest.tolist())
        if block >= 0 and text.home(block) == number * BLOCK_SIZE
    ]


def put(tier: DiskTier | HostTier, tokens: Tokens, *part: int, space: bytes = NAMESPACE) -> None:
    run = run_of(tokens, *part, space=space)
    stored = tier.put(run, views_of(run))
    assert stored.reason is None, stored.reason


def test_runs_come_and_go(tmp_path: Path) -> None:
    tier, tokens = tier_of(tmp_path), prompt(30)
    mirror = mirror_of(tier)
    assert seen(mirror, tokens) == []
    put(tier, tokens, 0, 3)
    assert seen(mirror, tokens) == [0, 1, 2]
    put(tier, tokens, 3)
    assert seen(mirror, tokens) == [*range(7)]
    last = mirror.text.newest(tokens[24:28], NAMESPACE)[0]
    assert mirror.text.longest_child(int(last), tokens[28:])[1] == 2, "the partly filled one"
    tier.remove(run_of(tokens, 3).keys)
    assert seen(mirror, tokens) == [0, 1, 2]
    tier.remove(run_of(tokens, 0, 3).keys)
    assert seen(mirror, tokens) == [] and mirror.text.num_blocks == 0


def test_another_process_is_noticed_and_nothing_is_read_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, others, tokens = tier_of(tmp_path), tier_of(tmp_path), prompt(24)
    mirror = mirror_of(mine)
    put(others, tokens, 0, 3)
    assert seen(mirror, tokens) == [0, 1, 2]
    reads: list[int] = []
    read = sqlite3.Connection.execute

    class Counted(sqlite3.Connection):
        def execute(self, statement: str, *values: object) -> sqlite3.Cursor:  # type: ignore[override]
            reads.append("blocks" in statement)
            return read(self, statement, *values)  # type: ignore[arg-type]

    monkeypatch.setattr(
        "kvtool.tiers.disk.schema.sqlite3.connect",
        lambda *args, **options: sqlite3.dbapi2.connect(*args, factory=Counted, **options),
    )
    counted = mirror_of(tier_of(tmp_path))
    reads.clear()
    assert seen(counted, tokens) == [0, 1, 2] and sum(reads) == 1
    reads.clear()
    assert seen(counted, tokens) == [0, 1, 2] and not any(reads) and len(reads) == 1
    put(others, tokens, 3)
    assert seen(counted, tokens) == [*range(6)] and sum(reads) == 1


def test_an_index_made_anew_is_another_index(tmp_path: Path) -> None:
    """Its ids may name other runs than before."""
    tier, a, b = tier_of(tmp_path), prompt(16, seed=1), prompt(16, seed=2)
    mirror = mirror_of(tier)
    put(tier, a)
    put(tier, b)
    assert seen(mirror, a) == [*range(4)]
    run_files(tmp_path)[0].unlink()
    for path in tmp_path.glob("index.sqlite*"):
        path.unlink()
    left = [seen(mirror, tokens) for tokens in (a, b)]
    assert sorted(left) == [[], [0, 1, 2, 3]]


def test_only_exact_kv_of_the_namespace_is_listed(tmp_path: Path) -> None:
    tier, tokens = tier_of(tmp_path), prompt(16)
    put(tier, tokens, space=OTHER)
    run = run_of(tokens)._replace(exact=False)
    tier.put(run, views_of(run))
    assert seen(mirror_of(tier), tokens) == []
    assert seen(mirror_of(tier, space=OTHER), tokens, OTHER) == [*range(4)]


def test_a_tail_whose_beginning_is_not_stored_waits_for_it(tmp_path: Path) -> None:
    tier, tokens = tier_of(tmp_path), prompt(24)
    put(tier, tokens, 2)
    mirror = mirror_of(tier)
    assert seen(mirror, tokens) == []
    put(tier, tokens, 0, 2)
    assert seen(mirror, tokens) == [*range(6)]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE blocks SET tokens = x'00' WHERE position = 1",
        "UPDATE blocks SET tokens = substr(tokens, 1, 8) WHERE position = 1",
        "UPDATE blocks SET key = 'text' WHERE position = 2",
        "DELETE FROM blocks WHERE position = 1",
    ],
)
def test_rows_that_make_no_sense_are_passed_over(tmp_path: Path, change: str) -> None:
    tier, tokens, other = tier_of(tmp_path), prompt(16), prompt(16, seed=1)
    put(tier, tokens)
    with closing(sqlite3.connect(tmp_path / "index.sqlite")) as connection, connection:
        connection.execute(change)
    put(tier, other)
    mirror = mirror_of(tier)
    assert seen(mirror, tokens) == [] and seen(mirror, other) == [*range(4)]


def test_a_disk_that_cannot_be_used_lists_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    tier = tier_of(tmp_path / "file" / "cache")
    assert seen(mirror_of(tier), prompt(16)) == []


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_host_memory_under_eviction(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tier = HostTier(6 * BLOCK_BYTES, GROUPS, BLOCK_SIZE)
    mirror = mirror_of(tier)
    texts = [prompt(int(rng.integers(1, 20)), seed=i) for i in range(4)]
    for _ in range(8):
        tokens = texts[int(rng.integers(4))]
        run = run_of(tokens, space=OTHER if rng.random() < 0.2 else NAMESPACE)
        if rng.random() < 0.2:
            tier.remove(run.keys[-1:])
        else:
            tier.put(run, views_of(run))
        for tokens in texts:
            run = run_of(tokens)
            keys = list(run.keys[: len(tokens) // BLOCK_SIZE])
            whole = tokens[: len(keys) * BLOCK_SIZE].reshape(-1, BLOCK_SIZE)
            assert len(seen(mirror, tokens)) == len(tier.contains(keys, whole))


def test_two_tiers_hold_one_block(tmp_path: Path) -> None:
    host, disk, tokens = (
        HostTier(9 * BLOCK_BYTES, GROUPS, BLOCK_SIZE),
        tier_of(tmp_path),
        prompt(24),
    )
    mirror = mirror_of(host, disk)
    put(host, tokens, 0, 4)
    put(disk, tokens)
    assert seen(mirror, tokens) == [*range(6)]
    disk.remove(run_of(tokens).keys)
    assert seen(mirror, tokens) == [*range(4)]
    host.close()
    assert seen(mirror, tokens) == [] and mirror.text.num_blocks == 0
