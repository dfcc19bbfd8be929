"""The catalog: what people see of a cache folder, and what they can do to it."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from tiers.disk.disk_runs import (
    BLOCK_SIZE,
    GROUPS,
    MIB,
    NAMESPACE,
    fields,
    hit,
    kv_of,
    prompt,
    run_files,
    run_of,
    tier_of,
    views_of,
)

from kvtool.cache.block_hash import root_hash
from kvtool.errors import CacheError
from kvtool.tiers.disk.catalog import Catalog
from kvtool.tiers.disk.repair import repair_index
from kvtool.tiers.tier import Missing


def put(tier, tokens, start=0, stop=None):
    run = run_of(tokens, start, stop)
    tier.put(run, views_of(run))
    return run


@pytest.fixture
def folder(tmp_path):
    """A sequence in two runs, and another of one with a partial block."""
    tier = tier_of(tmp_path)
    put(tier, prompt(32), 0, 4)
    put(tier, prompt(32), 4, 8)
    put(tier, prompt(10, 1))
    tier.close()
    return tmp_path


def reasons(damages):
    return [damage.reason for damage in damages]


def test_an_entry_says_what_was_stored(folder):
    catalog = Catalog.open(folder)
    run = run_of(prompt(32), 4, 8)
    entry, position = catalog.block(run.keys[2])
    assert position == 2
    assert (entry.namespace, entry.parent, entry.keys) == run[:3]
    assert entry.tokens.tolist() == run.tokens.tolist()
    assert (entry.home, entry.num_blocks, entry.num_tokens) == (16, 4, 16)
    assert (entry.exact, entry.provenance, entry.pinned) == (True, "prefill", False)
    assert entry.fields == fields()
    assert entry.num_bytes == (folder / "runs" / f"{entry.key}.safetensors").stat().st_size
    assert abs(entry.created - time.time()) < 60


def test_lists_and_links(folder):
    catalog = Catalog.open(folder)
    entries = catalog.entries()
    assert len(entries) == 3 and catalog.totals()[:3] == (3, 11, 42)
    assert catalog.totals().cap_bytes == 100 * MIB
    roots = catalog.roots()
    assert sorted(entry.num_tokens for entry in roots) == [10, 16]
    behind_root = catalog.children(root_hash(NAMESPACE))
    assert sorted(entry.num_tokens for entry, _ in behind_root) == [10, 16]
    ((child, position),) = catalog.children(run_of(prompt(32)).keys[3])
    assert (child.home, position) == (16, 0)
    ((same, position),) = catalog.children(run_of(prompt(32)).keys[5])
    assert (same.key, position) == (child.key, 2)
    assert catalog.block(b"x" * 32) is None
    assert catalog.find(entries[0].key[:20]).key == entries[0].key


@pytest.mark.parametrize("prefix", ["zz", "", "*", "a*", "../x", "a/b", "[0-9]"])
def test_no_run_has_such_a_key(folder, prefix):
    with pytest.raises(CacheError, match=r"No run's key|of a run is empty") as error:
        Catalog.open(folder).find(prefix)
    assert error.value.hint == f"kvtool inspect-cache {folder} lists the keys of all runs."


def test_a_key_of_several_runs(folder, monkeypatch):
    catalog = Catalog.open(folder)
    entries = catalog.entries()
    monkeypatch.setattr(catalog, "_read", lambda *args: entries)
    with pytest.raises(CacheError, match="The keys of 3 runs begin with 'ab'"):
        catalog.find("ab")


def test_hits_and_use(folder):
    tier = tier_of(folder)
    hit(tier, prompt(32))
    hit(tier, prompt(32))
    entries = Catalog.open(folder).entries()
    assert [entry.hits for entry in entries] == [2, 2, 0]
    assert [entry.home for entry in entries[:2]] == [0, 16]


def test_contents_are_verified(folder):
    catalog = Catalog.open(folder)
    run = run_of(prompt(32), 4, 8)
    entry, _ = catalog.block(run.keys[0])
    contents = catalog.read(entry)
    assert (contents.groups, contents.block_size) == (GROUPS, BLOCK_SIZE)
    for got, want in zip(contents.kv, kv_of(run.keys), strict=True):
        assert np.array_equal(got, want)
    path = folder / "runs" / f"{entry.key}.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(Missing, match="checksum"):
        catalog.read(entry)
    assert path.exists()
    path.unlink()
    with pytest.raises(Missing, match=r"^its file is gone$"):
        catalog.read(entry)
    path.symlink_to(folder)
    with pytest.raises(Missing, match=r"^its file cannot be read \(Too many levels"):
        catalog.read(entry)


def test_a_run_from_elsewhere_is_stored_and_hit(tmp_path):
    catalog = Catalog.open(tmp_path / "new", create=True)
    assert catalog.totals() == (0, 0, 0, 0, None, 0)
    run = run_of(prompt(18))._replace(provenance="import")
    entry = catalog.put_run(fields(), GROUPS, run, kv_of(run.keys), block_size=BLOCK_SIZE)
    assert (entry.num_tokens, entry.provenance) == (18, "import")
    again = catalog.put_run(fields(), GROUPS, run, kv_of(run.keys), block_size=BLOCK_SIZE)
    assert again.key == entry.key
    assert hit(tier_of(tmp_path / "new"), prompt(18)) == 16
    assert catalog.check() == []


def test_remove(folder):
    catalog = Catalog.open(folder)
    entry = catalog.roots()[0]
    assert catalog.remove([entry.key, "0" * 64]) == entry.num_bytes
    assert catalog.remove([entry.key]) == 0
    assert len(run_files(folder)) == 2 and catalog.check() == []


@pytest.mark.report("S16")
def test_tails_without_head_are_told_and_are_no_damage(folder):
    catalog = Catalog.open(folder)
    assert catalog.unreachable() == []
    head, _ = catalog.block(run_of(prompt(32)).keys[0])
    catalog.remove([head.key])
    assert [entry.home for entry in catalog.unreachable()] == [16]
    assert catalog.check() == []
    assert hit(tier_of(folder), prompt(32)) == 0


def test_check_reads_everything_and_tells_how_far_it_is(folder):
    steps = []
    assert Catalog.open(folder).check(lambda done, total: steps.append((done, total))) == []
    assert steps == [(1, 3), (2, 3), (3, 3)]


def test_check_and_repair_find_every_kind_of_damage(folder):
    catalog = Catalog.open(folder)
    good, flipped, deleted = run_files(folder)
    content = bytearray(flipped.read_bytes())
    content[-1] ^= 1
    flipped.write_bytes(content)
    deleted.unlink()
    good.chmod(0o644)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    temp = folder / "runs" / f"{'a' * 64}.{dead.pid}-1.7.tmp"
    temp.write_bytes(b"half")
    (folder / "runs" / ("b" * 64 + ".safetensors")).write_bytes(b"x" * 100)
    (folder / "runs" / "notes.txt").write_text("mine")
    found = " | ".join(reasons(catalog.check()))
    for words in ("checksum", "not there", "mode 644", "left unfinished", "does not know",
                  "a header of", "never touched"):  # fmt: skip
        assert words in found, words
    repaired = repair_index(folder)
    assert repaired.kept == 1
    assert "checksum" in " ".join(reasons(repaired.dropped))
    assert reasons(Catalog.open(folder).check()) == ["not a file of the cache; it is never touched"]
    assert run_files(folder) == [good] and not temp.exists()


def test_check_sees_an_index_that_lies(folder):
    catalog = Catalog.open(folder)
    with catalog._index.write() as connection:
        connection.execute("UPDATE runs SET home = 8 WHERE home = 16")
    assert reasons(catalog.check()) == ["the index says something else about it"]
    assert catalog.repair() == (3, [])
    assert catalog.check() == []


def _put_strange(folder, change):
    """A run whose file is intact and whose inside is wrong."""
    run = run_of(prompt(16))
    kv = kv_of(run.keys)
    run, described = change(run, kv, fields())
    catalog = Catalog.open(folder, create=True)
    catalog.put_run(described, GROUPS, run, kv, block_size=BLOCK_SIZE)
    return reasons(catalog.check())


def test_check_finds_values_that_are_no_numbers(tmp_path):
    def nan(run, kv, described):
        kv[0][2, 1].view(np.float32)[5] = np.nan
        return run, described

    def infinity(run, kv, described):
        kv[1][1, 0].view(np.uint16)[3] = 0xFF80  # -inf in bfloat16
        return run, described

    assert _put_strange(tmp_path / "a", nan) == ["NaN or infinity in block 2, layer 2"]
    assert _put_strange(tmp_path / "b", infinity) == ["NaN or infinity in block 1, layer 1"]


def test_check_recomputes_keys_and_namespaces(tmp_path):
    def key(run, kv, described):
        return run._replace(keys=(*run.keys[:3], b"k" * 32)), described

    def root(run, kv, described):
        return run._replace(parent=b"p" * 32), described

    def space(run, kv, described):
        return run, {**described, "weights": "others"}

    def model_name_is_not_part_of_it(run, kv, described):
        return run, {**described, "model": "a name"}

    def unknown_salt(run, kv, described):
        return run, {**described, "salt": "set", "weights": "others"}

    assert _put_strange(tmp_path / "a", key) == ["the key of block 3 is not that of its tokens"]
    assert "does not start where" in _put_strange(tmp_path / "b", root)[0]
    assert _put_strange(tmp_path / "c", space) == ["its namespace is not that of its fields"]
    assert _put_strange(tmp_path / "d", model_name_is_not_part_of_it) == []
    assert _put_strange(tmp_path / "e", unknown_salt) == []


def test_a_damaged_index_is_refused_and_repaired(folder):
    for path in folder.glob("index.sqlite*"):
        path.write_bytes(b"no index" * 1000)
    with pytest.raises(CacheError, match="index is damaged") as error:
        Catalog.open(folder)
    assert error.value.hint == f"kvtool inspect-cache {folder} --repair-index makes it anew."
    assert repair_index(folder) == (3, [])
    assert Catalog.open(folder).check() == []


def test_repair_keeps_pins_and_use(folder):
    catalog = Catalog.open(folder)
    hit(tier_of(folder), prompt(32))
    catalog.pin([catalog.entries()[0].key])
    before = [(e.key, e.hits, e.pinned) for e in catalog.entries()]
    assert repair_index(folder).kept == 3
    assert [(e.key, e.hits, e.pinned) for e in Catalog.open(folder).entries()] == before


def test_an_index_that_is_missing_is_made_by_several_processes_at_once(folder):
    for path in folder.glob("index.sqlite*"):
        path.unlink()
    code = (
        "import sys; from pathlib import Path; from kvtool.tiers.disk.catalog import Catalog;"
        "print(len(Catalog.open(Path(sys.argv[1])).entries()))"
    )
    command = [sys.executable, "-c", code, str(folder)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=os.getcwd(),
                                  env={**os.environ, "PYTHONPATH": "."}) for _ in range(3)]  # fmt: skip
    assert [process.communicate()[0] for process in processes] == ["3\n"] * 3
    assert Catalog.open(folder).check() == []


def test_leftovers_of_a_live_process_are_kept_for_an_hour(tmp_path):
    from kvtool.tiers.disk.owner import current_owner

    tier_of(tmp_path).close()
    temp = tmp_path / "runs" / f"{'a' * 64}.{current_owner()}.7.tmp"
    temp.write_bytes(b"half")
    assert Catalog.open(tmp_path).check() == []
    tier_of(tmp_path).close()
    assert temp.exists()
    os.utime(temp, (time.time() - 4000,) * 2)
    assert reasons(Catalog.open(tmp_path).check()) == ["left unfinished by a process that is gone"]
    tier_of(tmp_path).close()
    assert not temp.exists()
