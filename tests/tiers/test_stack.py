"""The tiers as one: order, promotion, events, what is reported, how it ends."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine.toy_engine import toy_request
from tiers.fakes import DictTier, GatedTier
from tiers.tiered_engine import prompt, tiered_engine

from kvtool.cache.backing import Run, Save
from kvtool.cache.block_keys import BlockKeys
from kvtool.cache.events import BlockRemoved, BlockStored
from kvtool.tiers.disk.disk import DiskTier
from kvtool.tiers.host import HostTier
from kvtool.tiers.lookup import stored_chain
from kvtool.tiers.tier import Missing, Stored
from kvtool.tiers.worker import Worker

SIZE = 4


def keys(length: int, seed: int = 0) -> BlockKeys:
    return BlockKeys(b"", np.array(prompt(length, seed), dtype=np.int32), SIZE)


def filled(*names: str) -> list[DictTier]:
    """Tiers that all hold 8 blocks and 2 tokens."""
    tiered = tiered_engine(*[partial(DictTier, name) for name in names])
    tiered.reply(prompt(34), 1)
    tiers = list(tiered.tiers.tiers)
    for tier in tiers:
        tier.calls.clear()
    return tiers


@pytest.mark.parametrize(
    ("in_host", "in_disk", "places", "calls"),
    [
        (range(9), range(9), "hhhhhhhhh", (1, 0)),
        (range(3), range(9), "hhhdddddd", (1, 1)),
        (range(0), range(9), "ddddddddd", (1, 1)),
        (range(5, 9), range(7), "dddddddhh", (2, 1)),
        ([0, 1, 4, 5], range(4), "hhddhh", (2, 2)),
        ([0, 2], [1], "hdh", (2, 2)),
        ([1, 2], [], "", (1, 1)),
    ],
)
def test_first_tier_that_has_a_block_and_few_questions(
    in_host: Any, in_disk: Any, places: str, calls: tuple[int, int]
) -> None:
    host, disk = filled("host", "disk")
    chain = [*keys(34).span(0, 9)]
    for tier, present in ((host, in_host), (disk, in_disk)):
        tier.kept = {key: tier.kept[key] for i, key in enumerate(chain) if i in present}
    found = stored_chain([host, disk], keys(34), 0, whole_blocks=False)
    assert "".join(block.tier[0] for block in found) == places
    assert [block.key for block in found] == chain[: len(places)]
    assert sum(block.num_tokens for block in found) == min(34, 4 * len(places))
    asked = tuple(tier.calls.count("contains") for tier in (host, disk))
    assert asked == calls


def test_one_presence_call_a_prompt_where_the_pool_or_one_tier_has_all() -> None:
    (disk,) = filled("disk")
    stored_chain([disk], keys(34), 0, whole_blocks=False)
    assert disk.calls == ["contains", "extend"]
    disk.calls.clear()
    stored_chain([disk], keys(34), 2, whole_blocks=True)
    assert disk.calls == ["contains"]


def test_runs_are_written_to_the_fastest_tier_first() -> None:
    order: list[str] = []

    class Ordered(DictTier):
        def put(self, *args: Any) -> Stored:
            order.append(self.name)
            return super().put(*args)

    tiered = tiered_engine(*[partial(Ordered, name) for name in ("host", "disk", "remote")])
    tiered.reply(prompt(30), 1)
    assert order == ["host", "disk", "remote"]


def test_a_hit_below_is_promoted_and_not_written_back_where_it_came_from() -> None:
    tiered = tiered_engine(partial(HostTier, 1 << 22), partial(DictTier, "disk"))
    tiered.reply(prompt(30), 1)
    tiered.forget_pool()
    host, disk = tiered.tiers.tiers
    host.remove(keys(30).span(0, 8))
    assert tiered.reply([*prompt(30), 5], 1).cached_by_tier == {"disk": 30}
    assert tiered.tiers.coverage(keys(30)) == {"host": 30, "disk": 30}
    tiered.forget_pool()
    disk.runs.clear()
    assert tiered.reply([*prompt(30), 5, 6], 1).cached_by_tier == {"host": 31}
    assert [(run.home, len(run.tokens)) for run in disk.runs] == [(28, 4)]


def test_with_one_tier_loaded_blocks_are_not_saved_again() -> None:
    tiered = tiered_engine(partial(DictTier, "disk"))
    tiered.reply(prompt(30), 1)
    tiered.forget_pool()
    (disk,) = tiered.tiers.tiers
    disk.runs.clear()
    tiered.reply(prompt(30), 1)
    tiered.reply([*prompt(30), *prompt(10, seed=2)], 1)
    assert [(run.home, len(run.tokens)) for run in disk.runs] == [(28, 12)]


def test_what_no_lower_tier_has_is_spilled_into_the_next_one() -> None:
    block_bytes = 2 * 2 * 2 * 16 * SIZE * 4  # layers, K and V, heads, head_dim
    events: list[Any] = []
    tiers = partial(HostTier, 8 * block_bytes), partial(DictTier, "disk")
    tiered = tiered_engine(*tiers, events=events.append)
    _, disk = tiered.tiers.tiers
    put = disk.put
    disk.put = lambda run, views: Stored(0, 0, "the disk is full")
    tiered.reply(prompt(30), 1)
    disk.put = put
    assert not disk.kept and tiered.tiers.coverage(keys(30)) == {"host": 30, "disk": 0}
    tiered.reply(prompt(16, seed=3), 1)
    tiered.forget_pool()
    assert set(tiered.tiers.coverage(keys(30)).values()) == {16, 0}
    assert tiered.reply(prompt(30), 1).cached_by_tier == {"host": 16, "disk": 13}
    row = tiered.tiers.report()[1]
    assert row["not_stored"] == {"the disk is full": 1}
    assert row["stored_blocks"] == len(disk.kept) >= 4, "what is spilled is counted"
    spilled = {h for e in events if isinstance(e, BlockStored) and e.medium == "disk"
               for h in e.block_hashes}  # fmt: skip
    assert {key.hex() for key in keys(30).span(0, 7)} & {k.hex() for k in disk.kept} <= spilled


def test_events_name_the_medium_and_come_in_the_callers_thread() -> None:
    events: list[Any] = []

    def sink(event: Any) -> None:
        assert threading.current_thread() is threading.main_thread()
        events.append(event)

    tiered = tiered_engine(partial(HostTier, 1 << 22), partial(DictTier, "disk"), events=sink)
    tiered.reply(prompt(10), 1)
    stored = [event for event in events if isinstance(event, BlockStored)]
    assert [event.medium for event in stored] == ["device", "host", "disk"]
    assert len({(e.block_hashes, e.parent_block_hash, e.token_ids) for e in stored}) == 1
    events.clear()
    tiered.tiers.tiers[0].remove(keys(10).span(0, 3))
    tiered.tiers.flush()
    hashes = tuple(key.hex() for key in keys(10).span(0, 2))
    assert events == [BlockRemoved(block_hashes=hashes, medium="host")]


def test_the_report_counts_blocks_tokens_and_bytes() -> None:
    tiered = tiered_engine(partial(DictTier, "disk"))
    tiered.reply(prompt(30), 1)
    tiered.forget_pool()
    tiered.reply(prompt(30), 1)
    (row,) = tiered.tiers.report()
    block_bytes = tiered.model.groups[0].block_bytes(SIZE)
    assert (row["stored_blocks"], row["stored_tokens"]) == (8, 30)
    assert (row["loaded_blocks"], row["loaded_tokens"]) == (8, 30)
    assert row["stored_bytes"] == row["loaded_bytes"] == 8 * block_bytes
    assert row["name"] == "disk" and row["bytes_per_s"] > 0 and row["load_failures"] == 0


def test_namespaces_are_described_to_every_tier() -> None:
    tiered = tiered_engine(partial(DictTier, "host"), partial(DictTier, "disk"))
    tiered.tiers.describe(b"n", {"salt": "set"})
    assert [tier.namespaces for tier in tiered.tiers.tiers] == [{b"n": {"salt": "set"}}] * 2


@pytest.mark.parametrize("flush", [True, False])
def test_closing_ends_every_save(flush: bool) -> None:
    tiered = tiered_engine(partial(GatedTier, "disk"))
    (disk,) = tiered.tiers.tiers
    disk.gate.clear()
    for seed in range(3):
        tiered.run(toy_request(prompt(20, seed), 1))
    assert disk.reached.wait(10) and not tiered.tiers.flush(0.01)
    if flush:
        disk.gate.set()
    tiered.tiers.close(flush=flush)
    disk.gate.set()
    assert disk.is_closed == flush, "a tier that is busy is left as it is"
    assert tiered.tiers.flush(10)
    assert len(disk.runs) == (3 if flush else 1)
    manager = tiered.engine.manager
    manager.release_ended_transfers()
    assert manager.num_available_blocks == manager.num_blocks
    tiered.run(toy_request(prompt(20, seed=9), 1))
    assert len(disk.runs) == (3 if flush else 1)


def test_closing_in_a_hurry_waits_for_no_lock(tmp_path: Path) -> None:
    """A save waits for a lock of another process; what ends has no time for that."""
    tiered = tiered_engine(lambda *shape: DiskTier(tmp_path, *shape, cap_bytes=1 << 20))
    (tier,) = tiered.tiers.tiers
    with closing(sqlite3.connect(tmp_path / "index.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        run = Run(b"", keys(8).parent(0), tuple(keys(8).span(0, 2)), keys(8).tokens, 0)
        save = Save(run, tuple(np.arange(2) for _ in tiered.model.groups))
        tiered.tiers.save(save)
        closer = threading.Thread(target=partial(tiered.tiers.close, flush=False), daemon=True)
        closer.start()
        closer.join(2.5)
        assert not closer.is_alive(), "it waits as long as SQLite does, 5 s"
    assert save.wait(10)
    tier.close()


@pytest.mark.report("S52")
def test_blocks_are_held_for_calls_that_a_tier_gave_up() -> None:
    """A put and then a get beyond their deadline: nobody waits, nothing is reissued."""
    stuck: Future[object] = Future()

    class Remote(DictTier):
        def put(self, *args: Any) -> Stored:
            return super().put(*args)._replace(reason="late", unfinished=stuck)

        def get(self, *args: Any) -> None:
            raise Missing("the deadline passed", unfinished=stuck)

    tiered = tiered_engine(partial(Remote, "remote"))
    manager = tiered.engine.manager
    tiered.reply(prompt(30), 1)
    assert manager.num_available_blocks == manager.num_blocks - 8
    stuck.set_result(None)
    tiered.forget_pool()
    stuck = Future()
    tiered.engine.add(request := toy_request(prompt(30), 1))
    assert tiered.engine.step() == []
    tiered.tiers.tiers[0].kept.clear()
    tiered.run()
    assert tiered.tiers.flush(10)
    assert request.is_finished and request.num_cached_tokens == 0
    assert manager.num_available_blocks == manager.num_blocks - 16
    stuck.set_result(None)
    manager.release_ended_transfers()
    assert manager.num_available_blocks == manager.num_blocks


def test_a_worker_survives_a_job_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    worker, done = Worker("test"), []

    def fail() -> None:
        raise ValueError("no")

    worker.submit(fail)
    worker.submit(lambda: done.append(1))
    worker.close()
    assert done == [1] and "a job of test failed" in caplog.text
