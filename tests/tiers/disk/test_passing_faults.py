"""What fails once, or for now: nothing is lost that is still there."""

import errno
import os
import sqlite3

import pytest
from tiers.disk.disk_runs import hit, prompt, run_files, run_of, tier_of, views_of

from kvtool.tiers.disk.catalog import Catalog
from kvtool.tiers.disk.store import RunStore


def put(tier, tokens):
    run = run_of(tokens)
    return tier.put(run, views_of(run))


def refuse_runs(monkeypatch, number, names):
    """These cannot be opened; everything else can."""
    real = os.open

    def open_other(path, *args, **kwargs):
        if any(name in str(path) for name in names):
            raise OSError(number, os.strerror(number))
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", open_other)


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.EACCES])
def test_what_stands_in_front_of_a_file_that_cannot_be_opened_now_is_hit(
    tmp_path, monkeypatch, caplog, number
):
    tier, tokens = tier_of(tmp_path), prompt(48)
    for start in (0, 4, 8):
        run = run_of(tokens, start, start + 4)
        tier.put(run, views_of(run))
        if start == 0:
            first = run_files(tmp_path)
    with monkeypatch.context() as patch:
        refuse_runs(patch, number, [path.name for path in run_files(tmp_path) if path not in first])
        assert hit(tier, tokens) == hit(tier, tokens) == 16
    assert hit(tier, tokens) == 48
    assert len(caplog.records) == 1


@pytest.mark.report("S50")
@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.EACCES])
def test_a_file_that_cannot_be_opened_while_the_index_is_made_is_kept(
    tmp_path, monkeypatch, number
):
    tier = tier_of(tmp_path)
    put(tier, prompt(16))
    tier.close()
    (tmp_path / "index.sqlite").unlink()
    with monkeypatch.context() as patch:
        refuse_runs(patch, number, [run_files(tmp_path)[0].name])
        tier = tier_of(tmp_path)
        assert hit(tier, prompt(16)) == 0
        tier.close()
    assert hit(tier_of(tmp_path), prompt(16)) == 16


def test_a_run_that_could_neither_be_published_nor_taken_back_is_taken_in(tmp_path, monkeypatch):
    """Its row says that a process, which still runs, is writing it; the file has its name."""
    tier = tier_of(tmp_path)

    def fail(*args, **kwargs):
        monkeypatch.setattr(RunStore, "_give_up", lambda *args: None)
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr("kvtool.tiers.disk.store.touch", fail)
    assert put(tier, prompt(16)).num_blocks == 0
    assert len(run_files(tmp_path)) == 1 and hit(tier, prompt(16)) == 0
    assert hit(tier_of(tmp_path), prompt(16)) == hit(tier, prompt(16)) == 16
    assert Catalog.open(tmp_path).check() == []
    tier.check_integrity()


@pytest.mark.parametrize("most", [1, 7, 1000])
def test_reads_that_give_less_than_they_could_are_continued(tmp_path, monkeypatch, most):
    tier = tier_of(tmp_path)
    put(tier, prompt(16))
    pread, preadv = os.pread, os.preadv
    monkeypatch.setattr(os, "pread", lambda fd, size, at: pread(fd, min(size, most), at))
    monkeypatch.setattr(os, "preadv", lambda fd, parts, at: preadv(fd, [parts[0][:most]], at))
    assert hit(tier, prompt(16)) == 16
