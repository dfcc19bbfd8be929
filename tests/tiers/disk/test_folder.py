"""Who may read the cache folder, and what it refuses to be."""

import os
import stat

import pytest
from tiers.disk.disk_runs import hit, prompt, run_files, run_of, tier_of, views_of

from kvtool.errors import CacheError
from kvtool.tiers.disk.catalog import Catalog
from kvtool.tiers.disk.folder import CacheFolder
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
