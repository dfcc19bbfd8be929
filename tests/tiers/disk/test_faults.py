"""A disk that is full, read-only, forbidden or broken: not stored, a miss, and one warning."""

import errno
import os
import sqlite3
import subprocess
from contextlib import contextmanager

import pytest
from tiers.disk.disk_runs import (
    BLOCK_SIZE,
    MIB,
    disk_bytes,
    hit,
    load,
    prompt,
    run_files,
    run_of,
    stored_blocks,
    tier_of,
    views_of,
)

from kvtool.tiers.disk.catalog import Catalog
from kvtool.tiers.tier import Missing


def put(tier, tokens):
    run = run_of(tokens)
    return tier.put(run, views_of(run))


def refuse(number):
    def call(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    return call


def only_warning(caplog, *words):
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 1, warnings
    assert all(word in warnings[0] for word in words), warnings


@pytest.mark.report("S47")
@pytest.mark.parametrize(
    "number, reason",
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EROFS, "the folder is read-only"),
        (errno.EACCES, "permission is denied"),
        (errno.EIO, "Input/output error"),
    ],
    ids=["ENOSPC", "EROFS", "EACCES", "EIO"],
)
@pytest.mark.parametrize("call", ["writev", "rename", "open"])
def test_a_write_that_fails_stores_nothing(tmp_path, monkeypatch, caplog, call, number, reason):
    tier = tier_of(tmp_path)
    put(tier, prompt(16))
    before = disk_bytes(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse(number))
        for seed in (1, 2):
            stored = put(tier, prompt(16, seed))
            assert stored.num_blocks == 0 and reason in stored.reason
    only_warning(caplog, reason)
    assert disk_bytes(tmp_path) == before  # nothing is left over, and no room is lost
    assert hit(tier, prompt(16, 1)) == 0
    assert hit(tier, prompt(16)) == 16
    assert put(tier, prompt(16, 1)).num_blocks == 4
    tier.check_integrity()
    assert Catalog.open(tmp_path).check() == []


def test_the_part_that_was_written_before_the_disk_was_full_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("kvtool.tiers.disk.store.MAX_RUN_BLOCKS", 2)
    tier = tier_of(tmp_path)
    real, calls = os.writev, []

    def writev(fd, buffers):
        calls.append(fd)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, buffers)

    monkeypatch.setattr(os, "writev", writev)
    stored = put(tier, prompt(16))
    assert (stored.num_blocks, stored.reason) == (2, "the disk is full")
    assert hit(tier, prompt(16)) == 8


@pytest.mark.report("S48")
@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE], ids=["EIO", "EMFILE"])
def test_a_read_that_fails_is_missing_and_not_promised_again(tmp_path, monkeypatch, caplog, number):
    tier = tier_of(tmp_path)
    put(tier, prompt(16))
    blocks = stored_blocks(tier, prompt(16))
    with monkeypatch.context() as patch:
        patch.setattr(os, "preadv", refuse(number))
        with pytest.raises(Missing):
            load(tier, blocks)
        assert hit(tier, prompt(16)) == 0
    only_warning(caplog, os.strerror(number))
    assert hit(tier_of(tmp_path), prompt(16)) == 16  # the file was all right


def test_a_locked_index_is_a_miss_for_writers_and_no_trouble_for_readers(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr("kvtool.tiers.disk.schema.BUSY_TIMEOUT_S", 0.05)
    tier = tier_of(tmp_path)
    put(tier, prompt(16))
    other = sqlite3.connect(tmp_path / "index.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert put(tier, prompt(16, 1)).reason == "its index is locked by another process"
    assert hit(tier, prompt(16)) == 16
    only_warning(caplog, "locked")
    other.execute("ROLLBACK")
    assert put(tier, prompt(16, 1)).num_blocks == 4


def test_a_full_disk_as_sqlite_says_it(tmp_path, caplog):
    tier = tier_of(tmp_path)
    connection = tier._index.connection()
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    stored = put(tier, prompt(4000))
    assert stored.reason == "the disk is full"
    only_warning(caplog, "full", "--cache-size")
    tier.check_integrity()


@contextmanager
def small_disk(folder, num_bytes, *options):
    """A tmpfs; skips where this machine lets nobody mount."""
    folder.mkdir(exist_ok=True)
    size = f"size={num_bytes},mode=0700"
    command = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True)
    except OSError:
        done = None
    if done is None or done.returncode:
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_disk_that_is_really_full(tmp_path, caplog, monkeypatch):
    with small_disk(tmp_path / "disk", MIB) as is_real:
        folder = tmp_path / "disk"
        tier = tier_of(folder)
        if not is_real:
            monkeypatch.setattr(os, "writev", refuse(errno.ENOSPC))
        stored = [put(tier, prompt(400, seed)) for seed in range(12)]
        assert "the disk is full" in stored[-1].reason
        only_warning(caplog, "full", "--cache-size")
        kept = [seed for seed, one in enumerate(stored) if one.reason is None]
        assert (len(kept) > 2) == is_real
        assert all(hit(tier, prompt(400, seed)) == 400 for seed in kept)
        tier.close()
        assert hit(tier_of(folder), prompt(400, 11)) == 0


def test_no_room_even_for_the_index(tmp_path, caplog, monkeypatch):
    with small_disk(tmp_path / "disk", 8192) as is_real:
        if not is_real:
            monkeypatch.setattr("kvtool.tiers.disk.rebuild.create_private", refuse(errno.ENOSPC))
        tier = tier_of(tmp_path / "disk")
        assert put(tier, prompt(16)).num_blocks == 0
        assert hit(tier, prompt(16)) == 0
        assert tier.recall("rates") is None
        tier.check_integrity()
        tier.close()
    only_warning(caplog, "cannot be used fully")


def test_a_read_only_disk_is_read(tmp_path, caplog):
    with small_disk(tmp_path / "disk", 4 * MIB) as is_real:
        folder = tmp_path / "disk"
        tier = tier_of(folder)
        put(tier, prompt(16))
        tier.close()
        if is_real:
            subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
            tier = tier_of(folder)
            assert hit(tier, prompt(16)) == 16
            assert "read-only" in put(tier, prompt(16, 1)).reason
            only_warning(caplog, "read-only", "--cache-dir")
            assert Catalog.open(folder).totals().entries == 1
            tier.close()


def test_a_damaged_file_on_a_read_only_disk_is_not_promised_twice(tmp_path, caplog):
    with small_disk(tmp_path / "disk", 4 * MIB) as is_real:
        folder = tmp_path / "disk"
        tier = tier_of(folder)
        put(tier, prompt(16))
        tier.close()
        path = run_files(folder)[0]
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        if is_real:
            subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        tier = tier_of(folder)
        with pytest.raises(Missing):
            hit(tier, prompt(16))
        assert hit(tier, prompt(16)) == 0
        tier.close()


def test_a_folder_that_cannot_be_made(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    tier = tier_of(tmp_path / "file" / "cache")
    assert put(tier, prompt(16)).num_blocks == 0
    assert hit(tier, prompt(16)) == 0
    only_warning(caplog, "cannot be used fully: it cannot be read or written (Not a directory).")


@pytest.mark.report("S49")
def test_an_index_of_another_format_is_left_alone(tmp_path, caplog):
    tier = tier_of(tmp_path)
    put(tier, prompt(16))
    tier._index.connection().execute("PRAGMA user_version = 99")
    tier.close()
    tier = tier_of(tmp_path)
    assert hit(tier, prompt(16)) == 0
    assert put(tier, prompt(16, 1)).num_blocks == 0
    only_warning(caplog, "format version 99; this kvtool uses 1. Use the kvtool that made it")
    assert len(run_files(tmp_path)) == 1


@pytest.mark.report("S47")
def test_what_is_being_written_is_found_by_nobody(tmp_path, monkeypatch):
    tier, other = tier_of(tmp_path), tier_of(tmp_path)
    real, seen = os.writev, []

    def writev(fd, buffers):
        written = real(fd, buffers)
        seen.append((hit(other, prompt(16)), hit(tier_of(tmp_path), prompt(16))))
        return written

    monkeypatch.setattr(os, "writev", writev)
    put(tier, prompt(16))
    assert seen == [(0, 0)]
    assert hit(other, prompt(16)) == 4 * BLOCK_SIZE
