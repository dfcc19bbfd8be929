"""The disk tier: what goes in comes out, in this process and the next."""

import multiprocessing

import numpy as np
import pytest
from safetensors import safe_open
from tiers.disk.disk_runs import (
    BLOCK_SIZE,
    NAMESPACE,
    hit,
    kv_of,
    load,
    prompt,
    run_files,
    run_of,
    stored_blocks,
    tier_of,
    views_of,
)

from kvtool.cache.backing import StoredBlock
from kvtool.cache.block_keys import BlockKeys
from kvtool.tiers.disk.folder import CacheFolder
from kvtool.tiers.tier import Missing, Stored


def test_a_stored_run_is_found_and_read_also_by_the_next_process(tmp_path):
    tokens = prompt(22)
    run = run_of(tokens)
    tier = tier_of(tmp_path)
    assert hit(tier, tokens) == 0
    stored = tier.put(run, views_of(run))
    assert stored == Stored(6, run_files(tmp_path)[0].stat().st_size)
    assert hit(tier, tokens) == 20
    tier.check_integrity()
    tier.close()
    assert hit(tier_of(tmp_path), tokens) == 20


@pytest.mark.report("S46")
def test_what_is_said_to_be_stored_is_what_a_new_process_hits(tmp_path):
    tokens = prompt(200)
    run = run_of(tokens)
    tier = tier_of(tmp_path)
    num_blocks = tier.put(run, views_of(run)).num_blocks
    tier.close()
    assert hit(tier_of(tmp_path), tokens) == num_blocks * BLOCK_SIZE == 200


def test_a_run_that_is_there_is_not_written_again_and_a_longer_one_adds_its_end(tmp_path):
    tokens = prompt(40)
    tier = tier_of(tmp_path)
    for start, stop, new in ((0, 4, 4), (0, 4, 0), (0, 6, 2), (3, 10, 4), (0, 10, 0)):
        run = run_of(tokens, start, stop)
        assert tier.put(run, views_of(run)).num_blocks == new
    assert hit(tier, tokens) == 40
    assert len(run_files(tmp_path)) == 3


def test_a_hole_in_the_middle_is_filled(tmp_path):
    tokens = prompt(24)
    tier = tier_of(tmp_path)
    for start, stop in ((0, 2), (4, 5), (0, 6)):
        run = run_of(tokens, start, stop)
        tier.put(run, views_of(run))
    assert len(run_files(tmp_path)) == 4
    assert hit(tier, tokens) == 24


@pytest.mark.report("S53")
def test_a_partial_block_holds_its_tokens_and_nothing_else(tmp_path):
    tokens = prompt(7)
    run = run_of(tokens)
    tier = tier_of(tmp_path)
    tier.put(run, views_of(run))  # the unused slot of the memory is not empty
    part = tier.extend(run.keys[0], tokens[4:])
    assert (part.key, part.num_tokens) == (run.keys[1], 3)
    kv, latent = load(tier, [StoredBlock(part.key, 3, "disk", part.place)])
    wanted = kv_of(run.keys[1:])
    # kv [2 layers, 2 planes, 2 heads, 4 slots, 8 values of 4 bytes]
    slots, wanted_slots = kv.reshape(2, 2, 2, 4, 32), wanted[0].reshape(2, 2, 2, 4, 32)
    assert np.array_equal(slots[..., :3, :], wanted_slots[..., :3, :])
    assert not slots[..., 3, :].any()
    assert not latent.reshape(4, 24)[3].any()


def test_extend_takes_the_longest_common_prefix_and_of_equals_the_most_recent(tmp_path):
    tier = tier_of(tmp_path)
    head = prompt(4)
    tails = [[1, 2, 9, 9], [1, 2, 3, 9], [1, 2, 3, 8], [7, 7, 7, 7]]
    for tail in tails:
        run = run_of(np.append(head, tail).astype(np.int32))
        tier.put(run, views_of(run))
    parent = BlockKeys(NAMESPACE, head, BLOCK_SIZE).key(0)

    def extend(*tokens):
        part = tier.extend(parent, np.array(tokens, np.int32))
        return part and (part.num_tokens, part.place.tokens)

    as_bytes = lambda *tokens: np.array(tokens, "<i4").tobytes()  # noqa: E731
    assert extend(1, 2, 3) == (3, as_bytes(1, 2, 3))
    assert extend(1, 2, 3, 8) == (4, as_bytes(1, 2, 3, 8))
    assert extend(1, 5) == (1, as_bytes(1))
    assert extend(6) is None
    key = tier.extend(parent, np.array([1, 2, 3], np.int32)).key
    assert key == run_of(np.append(head, tails[2]).astype(np.int32)).keys[1]


@pytest.mark.report("S45")
def test_nothing_to_store_and_nothing_stored(tmp_path):
    tier = tier_of(tmp_path)
    empty = run_of(prompt(0))
    assert tier.put(empty, views_of(empty)) == Stored(0, 0)
    assert hit(tier, prompt(0)) == 0
    assert tier.extend(empty.parent, prompt(3)) is None
    assert tier.remove([b"x" * 32]) == 0
    assert run_files(tmp_path) == []


@pytest.mark.report("S66")
def test_equal_keys_of_other_tokens_are_no_hit(tmp_path):
    """As if the hash were broken: every key is the same, only tokens can tell."""
    tier = tier_of(tmp_path)
    tokens = prompt(8)
    run = run_of(tokens)._replace(keys=(b"k" * 32, b"k" * 32))
    assert tier.put(run, views_of(run)).num_blocks == 2
    other = prompt(8, seed=1).reshape(2, 4)
    assert tier.contains([b"k" * 32] * 2, other) == []
    assert len(tier.contains([b"k" * 32] * 2, tokens.reshape(2, 4))) == 2


def test_remove_forgets_and_deletes(tmp_path):
    tokens = prompt(16)
    run = run_of(tokens)
    tier = tier_of(tmp_path)
    tier.put(run, views_of(run))
    assert tier.remove([run.keys[1], b"x" * 32]) == 1
    assert run_files(tmp_path) == [] and hit(tier, tokens) == 0


def test_a_place_stays_readable_when_its_entry_is_evicted(tmp_path):
    tokens = prompt(16)
    run = run_of(tokens)
    tier = tier_of(tmp_path)
    tier.put(run, views_of(run))
    blocks = stored_blocks(tier, tokens)
    tier_of(tmp_path).remove(run.keys)
    for got, want in zip(load(tier, blocks), kv_of(run.keys), strict=True):
        assert np.array_equal(got, want)


def test_of_many_runs_only_some_stay_open(tmp_path, monkeypatch):
    monkeypatch.setattr("kvtool.tiers.disk.open_runs.MAX_OPEN", 2)
    tokens = prompt(20)
    tier = tier_of(tmp_path)
    for block in range(5):
        run = run_of(tokens, block, block + 1)
        tier.put(run, views_of(run))
    blocks = stored_blocks(tier, tokens)
    assert [block.place.run.is_open for block in blocks] == [True, True, False, False, False]
    assert hit(tier, tokens) == 20
    run_files(tmp_path)  # those that are not open are gone when they are removed
    tier.remove(run_of(tokens).keys)
    with pytest.raises(Missing):
        load(tier, blocks)


def test_a_run_that_is_not_kept_open_is_opened_once_a_question_and_once_a_load(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("kvtool.tiers.disk.open_runs.MAX_OPEN", 1)
    tokens = prompt(64)
    tier = tier_of(tmp_path)
    for start in (0, 8):
        run = run_of(tokens, start, start + 8)
        tier.put(run, views_of(run))
    opened, real = [], CacheFolder.open_run
    monkeypatch.setattr(CacheFolder, "open_run", lambda *args: opened.append(args) or real(*args))
    blocks = stored_blocks(tier, tokens)
    assert (len(blocks), len(opened)) == (16, 2)
    load(tier, blocks)
    assert len(opened) == 3


def test_a_forked_process_uses_connections_of_its_own(tmp_path):
    tier = tier_of(tmp_path)
    run = run_of(prompt(16))
    tier.put(run, views_of(run))
    inherited = tier._index.connection()

    def child():
        other = run_of(prompt(16, 1))
        assert hit(tier, prompt(16)) == 16 and tier.put(other, views_of(other)).num_blocks == 4
        assert tier._index.connection() is not inherited
        tier.close()
        inherited.execute("SELECT 1")  # raises where it was closed

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    assert process.exitcode == 0
    assert tier._index.connection() is inherited
    assert hit(tier, prompt(16)) == hit(tier, prompt(16, 1)) == 16


def test_long_prompts_are_split_into_files_of_bounded_length(tmp_path):
    tokens = prompt(300 * BLOCK_SIZE)
    run = run_of(tokens)
    tier = tier_of(tmp_path)
    assert tier.put(run, views_of(run)).num_blocks == 300
    assert len(run_files(tmp_path)) == 3
    assert hit(tier, tokens) == 1200


def test_figures_are_remembered_between_processes(tmp_path):
    tier = tier_of(tmp_path)
    assert tier.recall("rates") is None
    tier.remember("rates", {"disk": 1.5e9})
    tier.remember("rates", {"disk": 2.5e9})
    tier.close()
    assert tier_of(tmp_path).recall("rates") == {"disk": 2.5e9}


def test_the_file_is_an_ordinary_safetensors_file(tmp_path):
    tokens = prompt(10)
    run = run_of(tokens)
    tier = tier_of(tmp_path, durable=True)
    tier.put(run, views_of(run))
    with safe_open(run_files(tmp_path)[0], "pt") as file:
        assert set(file.keys()) == {"tokens", "keys", "content", "checksums", "group.0", "group.1"}
        assert file.get_tensor("tokens").tolist() == tokens.tolist()
        assert tuple(file.get_slice("group.0").get_shape()) == (3, 2, 2, 2, 4, 8)
        assert tuple(file.get_slice("group.1").get_shape()) == (3, 1, 4, 12)
        assert file.get_tensor("group.0").numpy()[:2].tobytes() == kv_of(run.keys)[0][:2].tobytes()
        assert file.metadata()["namespace"] == NAMESPACE.hex()
