"""The cap holds over everything that lies in the folder; tails go first, pins go last."""

import multiprocessing
import os
import re
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers.disk.disk_runs import (
    MIB,
    disk_bytes,
    hit,
    load,
    prompt,
    run_files,
    run_of,
    tier_of,
    views_of,
)

from kvtool.cache.backing import StoredBlock
from kvtool.errors import CacheError
from kvtool.tiers.disk.catalog import Catalog

ONE_RUN = 6336  # bytes of four blocks and their head


def put(tier, tokens, start=0, stop=None):
    run = run_of(tokens, start, stop)
    return tier.put(run, views_of(run))


def test_the_size_these_tests_count_in(tmp_path):
    tier = tier_of(tmp_path)
    assert put(tier, prompt(16)).num_bytes == disk_bytes(tmp_path) == ONE_RUN


@pytest.mark.report("S51")
def test_two_processes_one_after_the_other_stay_below_the_cap(tmp_path):
    for process in range(2):
        tier = tier_of(tmp_path, cap_bytes=MIB)
        for number in range(200):
            assert put(tier, prompt(16, 1000 * process + number)).num_blocks == 4
            assert disk_bytes(tmp_path) <= MIB
        assert disk_bytes(tmp_path) > MIB - ONE_RUN
        tier.check_integrity()
        tier.close()


def _store_many(folder, seed):
    tier = tier_of(folder, cap_bytes=MIB // 4)
    for number in range(60):
        put(tier, prompt(16, 1000 * seed + number))


@pytest.mark.report("S51")
def test_two_processes_at_the_same_time_stay_below_the_cap(tmp_path):
    tier_of(tmp_path, cap_bytes=MIB // 4).close()
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_store_many, args=(tmp_path, n)) for n in (1, 2)]
    for process in processes:
        process.start()
    while any(process.is_alive() for process in processes):
        try:
            assert disk_bytes(tmp_path) <= MIB // 4
        except FileNotFoundError:  # evicted between being listed and being looked at
            continue
        time.sleep(0.002)
    assert [process.exitcode for process in processes] == [0, 0]
    tier_of(tmp_path, cap_bytes=MIB // 4).check_integrity()


def test_files_that_were_there_before_count(tmp_path):
    tier = tier_of(tmp_path)
    for number in range(20):
        known = set(run_files(tmp_path))
        put(tier, prompt(16, number))
        (new,) = set(run_files(tmp_path)) - known
        os.utime(new, (number, number))  # files made within one tick of the clock have one time
    tier.close()
    (tmp_path / "index.sqlite").unlink()
    tier = tier_of(tmp_path, cap_bytes=5 * ONE_RUN)
    assert disk_bytes(tmp_path) <= 5 * ONE_RUN
    assert [hit(tier, prompt(16, number)) for number in range(20)] == [0] * 15 + [16] * 5


def test_a_run_that_can_never_fit_says_so(tmp_path):
    tier = tier_of(tmp_path, cap_bytes=500)
    stored = put(tier, prompt(16))
    assert stored.num_blocks == 0 and "larger than the cache, 500 bytes" in stored.reason
    assert disk_bytes(tmp_path) == 0


@pytest.mark.parametrize("cap_bytes, words", [(1, "1 byte"), (1500, "1,500 bytes")])
def test_sizes_are_said_as_people_read_them(tmp_path, cap_bytes, words):
    stored = put(tier_of(tmp_path, cap_bytes=cap_bytes), prompt(4))
    assert re.fullmatch(
        rf"a run of \d,\d{{3}} bytes is larger than the cache, {words}", stored.reason
    )


def test_of_a_run_larger_than_the_cap_the_front_is_kept(tmp_path):
    tier = tier_of(tmp_path, cap_bytes=5000)
    stored = put(tier, prompt(16))
    assert 0 < stored.num_blocks < 4 and "no room" in stored.reason
    assert hit(tier, prompt(16)) == 4 * stored.num_blocks
    assert 0 < disk_bytes(tmp_path) <= 5000


def test_a_prompt_larger_than_the_cap_keeps_its_beginning(tmp_path):
    tier = tier_of(tmp_path, cap_bytes=2 * ONE_RUN)
    tokens = prompt(64)
    stored = [put(tier, tokens, start, start + 4) for start in (0, 4, 8, 12)]
    assert [one.num_blocks for one in stored] == [4, 4, 0, 0]
    assert "no room" in stored[2].reason
    assert hit(tier, tokens) == 32


@pytest.mark.report("S16")
def test_tails_are_evicted_before_heads(tmp_path):
    tier = tier_of(tmp_path, cap_bytes=4 * ONE_RUN)
    tokens = prompt(48)
    for start in (0, 4, 8):
        put(tier, tokens, start, start + 4)
    other = prompt(16, 1)
    put(tier, other)
    hits = []
    for number in range(3):
        put(tier, prompt(16, 10 + number))
        hits.append(hit(tier_of(tmp_path, cap_bytes=4 * ONE_RUN), tokens))
        tier.check_integrity()
    assert hits == [32, 32, 32]  # used again each time, so what else is there goes instead
    assert hit(tier, other) == 0
    for number in range(20, 22):  # nobody uses it any more: from its end on
        put(tier, prompt(16, number))
        hit(tier, prompt(16, 12))
    catalog = Catalog.open(tmp_path)
    assert [entry.home for entry in catalog.entries() if entry.home] == []
    assert len(catalog.roots()) == 4


@pytest.mark.report("S16")
def test_using_a_tail_alone_keeps_its_head(tmp_path):
    """The pool may hold the head, so that only the tail is read from disk."""
    tier = tier_of(tmp_path, cap_bytes=3 * ONE_RUN)
    tokens = prompt(32)
    put(tier, tokens, 0, 4)
    put(tier, tokens, 4, 8)
    put(tier, prompt(16, 1))
    keys = run_of(tokens).keys[4:]
    places = tier.contains(keys, tokens[16:].reshape(-1, 4))
    load(tier, [StoredBlock(key, 4, "disk", at) for key, at in zip(keys, places, strict=True)])
    put(tier, prompt(16, 2))
    assert hit(tier, tokens) == 32
    assert hit(tier, prompt(16, 1)) == 0


def test_least_recently_used_first_whatever_the_clock_says(tmp_path, monkeypatch):
    tier = tier_of(tmp_path, cap_bytes=3 * ONE_RUN)
    now = time.time()
    for number in range(3):  # every store and hit lies before the one in front of it
        monkeypatch.setattr(time, "time", lambda number=number: now - 1000 * number)
        put(tier, prompt(16, number))
    monkeypatch.setattr(time, "time", lambda: now - 1e6)
    assert hit(tier, prompt(16, 0)) == 16
    monkeypatch.setattr(time, "time", lambda: 0.0)
    put(tier, prompt(16, 3))
    assert [hit(tier, prompt(16, number)) for number in range(4)] == [16, 0, 16, 16]


def pinned_folder(folder, pinned, cap_runs=4):
    """Four runs, one prompt each; those of `pinned` are pinned."""
    tier = tier_of(folder, cap_bytes=cap_runs * ONE_RUN)
    for number in range(4):
        put(tier, prompt(16, number))
    catalog = Catalog.open(folder)
    names = {entry.tokens.tobytes(): entry.key for entry in catalog.entries()}
    catalog.pin([names[prompt(16, number).tobytes()] for number in pinned])
    return tier, catalog


def test_pinned_runs_are_evicted_last(tmp_path):
    tier, _ = pinned_folder(tmp_path, [0, 1])
    for number in range(10, 14):
        assert put(tier, prompt(16, number)).num_blocks == 4
    assert [hit(tier, prompt(16, number)) for number in (0, 1, 2, 3)] == [16, 16, 0, 0]


def test_pinning_more_than_the_share_is_refused(tmp_path):
    words = r"19,008 bytes would be pinned; at most [\d,]+ bytes may be, 50% of the cache size"
    with pytest.raises(CacheError, match=words) as error:
        pinned_folder(tmp_path, [0, 1, 2])
    assert error.value.hint == "Unpin other runs, or raise --cache-size."
    assert not any(entry.pinned for entry in Catalog.open(tmp_path).entries())


def test_pins_beyond_the_share_of_a_lowered_cap_do_not_block(tmp_path):
    pinned_folder(tmp_path, [0, 1])[0].close()
    tier = tier_of(tmp_path, cap_bytes=2 * ONE_RUN)
    for number in range(10, 13):
        assert put(tier, prompt(16, number)).num_blocks == 4
    assert sum(entry.pinned for entry in Catalog.open(tmp_path).entries()) == 1


def test_pins_never_block_a_run_that_fits_the_cap(tmp_path):
    tier, catalog = pinned_folder(tmp_path, [0, 1])
    whole = prompt(48, 20)
    assert put(tier, whole).num_blocks == 12
    assert hit(tier, whole) == 48
    assert catalog.totals().pinned_bytes < 2 * ONE_RUN


def test_a_pin_lapses_when_nobody_uses_it(tmp_path, monkeypatch):
    tier, _ = pinned_folder(tmp_path, [0, 1])
    week = 7 * 24 * 3600
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + week - 60)
    hit(tier, prompt(16, 1))
    monkeypatch.setattr(time, "time", lambda: now + week + 60)
    for number in range(10, 14):
        put(tier, prompt(16, number))
    assert [hit(tier, prompt(16, number)) for number in (0, 1)] == [0, 16]


def test_a_pin_holds_what_stands_in_front(tmp_path):
    tier = tier_of(tmp_path, cap_bytes=4 * ONE_RUN)
    tokens = prompt(32)
    put(tier, tokens, 0, 4)
    put(tier, tokens, 4, 8)
    catalog = Catalog.open(tmp_path)
    tail = catalog.block(run_of(tokens).keys[7])[0]
    assert catalog.pin([tail.key]) == catalog.totals().bytes
    for number in range(10, 14):
        put(tier, prompt(16, number))
    assert hit(tier, tokens) == 32
    assert catalog.unpin([entry.key for entry in catalog.entries()]) == 2


ACTIONS = st.tuples(
    st.sampled_from(["put", "put", "put", "hit", "pin", "unpin", "remove", "reopen"]),
    st.integers(0, 5),
    st.integers(0, 5),
    st.integers(1, 6),
)


@settings(max_examples=15)
@given(actions=st.lists(ACTIONS, min_size=5, max_size=25), cap=st.integers(1, 6))
def test_random_puts_hits_and_pins_never_exceed_the_cap(tmp_path_factory, actions, cap):
    folder, cap_bytes = tmp_path_factory.mktemp("cap"), cap * ONE_RUN
    tier = tier_of(folder, cap_bytes=cap_bytes)
    catalog = Catalog.open(folder)
    sequences = [np.append(prompt(8), prompt(40, 1 + number)) for number in range(6)]
    for action, number, start, length in actions:
        tokens = sequences[number].astype(np.int32)
        entries = catalog.entries()
        some = [entry.key for entry in entries[number : number + 2]]
        if action == "put":
            put(tier, tokens, start, start + length)
        elif action == "hit":
            hit(tier, tokens)
        elif action == "pin":
            try:
                catalog.pin(some)
            except CacheError:
                assert some
        elif action == "reopen":
            tier.close()
            tier = tier_of(folder, cap_bytes=cap_bytes)
        else:
            getattr(catalog, action)(some)
        assert disk_bytes(folder) == catalog.totals().bytes <= cap_bytes
        tier.check_integrity()
    assert catalog.check() == []
    assert len(run_files(folder)) == catalog.totals().entries
    tier.close()
    catalog.close()
