"""Who may read the cache folder, and what it refuses to be."""

import os
import stat
from contextlib import closing

import pytest
from tiers.disk.disk_runs import hit, prompt, run_files, run_of, tier_of, views_of

from kvtool.errors import CacheError
from kvtool.inspection.check import check
from kvtool.tiers.disk.catalog import Catalog
from kvtool.tiers.disk.entry import FOREIGN, Damage
from kvtool.tiers.disk.folder import CacheFolder
from kvtool.tiers.disk.repair import repair_index
from kvtool.tiers.tier import Missing


def put(tier, tokens):
    run = run_of(tokens)
    return tier.put(run, views_of(run))


@pytest.mark.report("S71")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_only_the_owner_may_read_whatever_the_umask(tmp_path, umask):
    old = os.umask(umask)
    try:
        tier = tier_of(tmp_path / "cache")
        put(tier, prompt(16))
    finally:
        os.umask(old)
    for path in (tmp_path / "cache", *(tmp_path / "cache").rglob("*")):
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path
    assert hit(tier, prompt(16)) == 16


def test_a_wider_folder_of_ones_own_is_tightened(tmp_path):
    tmp_path.chmod(0o755)
    put(tier_of(tmp_path), prompt(16))
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700
    tmp_path.chmod(0o777)
    tier_of(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_a_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    tier_of(tmp_path).close()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(CacheError, match="another user"):
        tier_of(tmp_path)
    with pytest.raises(CacheError, match="another user"):
        Catalog.open(tmp_path)


@pytest.mark.parametrize("open_it", [tier_of, Catalog.open])
def test_a_folder_that_holds_other_things_is_refused(tmp_path, open_it):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(CacheError, match=r"thesis\.txt"):
        open_it(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("lost", [[], ["index.sqlite", "index.lock"]], ids=["whole", "no index"])
def test_what_lies_beside_a_cache_is_named_and_left_alone(tmp_path, lost):
    with closing(tier_of(tmp_path)) as tier:
        put(tier, prompt(16))
    for name in lost:
        (tmp_path / name).unlink()
    (tmp_path / ".DS_Store").write_text("theirs")
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "runs" / "notes.txt").write_text("mine")
    assert hit(tier_of(tmp_path), prompt(16)) == 16
    assert repair_index(tmp_path) == (1, [])
    names = [".DS_Store", "lost+found", "runs/notes.txt"]
    assert Catalog.open(tmp_path).check() == [Damage(name, FOREIGN) for name in names]
    report = check(Catalog.open(tmp_path))
    assert report.ok and [damage["file"] for damage in report.damaged] == names
    assert (tmp_path / ".DS_Store").read_text() == "theirs"


@pytest.mark.parametrize("open_it", [tier_of, Catalog.open, repair_index])
def test_a_folder_of_others_that_has_runs_or_an_index_of_its_own(tmp_path, open_it):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "events.out.tfevents").touch()
    (tmp_path / "train.py").touch()
    with pytest.raises(CacheError, match=r"it holds 'train\.py'"):
        open_it(tmp_path)
    (tmp_path / "runs").rename(tmp_path / "results")
    (tmp_path / "index.sqlite").write_text("theirs")
    with pytest.raises(CacheError, match="it holds 'results'"):
        open_it(tmp_path)
    assert (tmp_path / "index.sqlite").read_text() == "theirs"


@pytest.mark.report("S70")
@pytest.mark.parametrize("name", ["index.sqlite", "index.lock", "index.sqlite-wal", "runs"])
def test_links_in_place_of_our_own_files_are_refused(tmp_path, name):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("precious")
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / name).symlink_to(outside if name == "runs" else outside / "file")
    with pytest.raises(CacheError, match="not a plain"):
        tier_of(folder)
    assert (outside / "file").read_text() == "precious"
    assert [path.name for path in outside.iterdir()] == ["file"]


@pytest.mark.report("S70")
def test_a_link_in_place_of_a_run_is_not_followed(tmp_path):
    folder, outside = tmp_path / "cache", tmp_path / "outside"
    tier = tier_of(folder)
    put(tier, prompt(16))
    path = run_files(folder)[0]
    path.rename(outside)
    path.symlink_to(outside)
    content = outside.read_bytes()
    assert hit(tier, prompt(16)) == 0
    assert not path.is_symlink() and outside.read_bytes() == content


@pytest.mark.report("S70")
def test_a_link_where_a_run_will_be_written_is_not_followed(tmp_path, monkeypatch):
    folder, outside = tmp_path / "cache", tmp_path / "outside"
    outside.write_text("precious")
    tier = tier_of(folder)
    real = CacheFolder.temp_path

    def temp_path(self, name, owner, number):
        path = real(self, name, owner, number)
        path.symlink_to(outside)
        return path

    monkeypatch.setattr(CacheFolder, "temp_path", temp_path)
    assert put(tier, prompt(16)).num_blocks == 0
    assert outside.read_text() == "precious"


@pytest.mark.report("S70")
@pytest.mark.parametrize(
    "name", ["../x", "/x", "a/../../x", "n\0l", "x" * 300, "CON", "", "A" * 64, "a" * 63]
)
def test_no_name_but_a_digest_becomes_a_path(tmp_path, name):
    folder = CacheFolder(tmp_path)
    with pytest.raises(AssertionError):
        folder.run_path(name)
    folder.remove_run(name)
    folder.remove_temp(name, "1-1", 1)
    tier = tier_of(tmp_path)
    put(tier, prompt(16))
    with tier._index.write() as connection:
        connection.execute("UPDATE runs SET name = ?", (name,))
    assert hit(tier, prompt(16)) == 0
    catalog = Catalog.open(tmp_path)
    with pytest.raises(Missing):
        catalog.read(catalog.entries()[0])
    assert catalog.check()
    assert hit(tier_of(tmp_path), prompt(16)) == 16  # taken in anew under its own name


def test_a_pipe_in_place_of_a_run_does_not_stop_anybody(tmp_path):
    tier = tier_of(tmp_path)
    put(tier, prompt(16))
    path = run_files(tmp_path)[0]
    path.unlink()
    os.mkfifo(path)
    assert hit(tier, prompt(16)) == 0


def test_what_is_no_cache(tmp_path):
    for open_it in (Catalog.open, repair_index):
        for folder, words in ((tmp_path / "none", "no cache in"), (tmp_path, "it holds no runs")):
            with pytest.raises(CacheError, match=words) as error:
                open_it(folder)
            assert error.value.hint == f"kvtool prefill FILE --cache-dir {folder} makes one."
    assert list(tmp_path.iterdir()) == []
    tier_of(tmp_path / "old")._index.connection().execute("PRAGMA user_version = 9")
    with pytest.raises(CacheError, match="format version 9; this kvtool uses 1") as error:
        Catalog.open(tmp_path / "old")
    assert error.value.hint.startswith("Use the kvtool that made it")
