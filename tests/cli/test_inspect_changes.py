"""`kvtool inspect-cache` --check, and what changes a cache: only what was asked for, and only then."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from command_line import Run
from tiers.disk.disk_runs import run_files


@pytest.mark.report("S31")
def test_check(ask: Run, inspect: Run, document: Any, cache_folder: Path) -> None:
    ask("hello")
    assert document("--check") == {"ok": True, "checked": 1, "damaged": [], "unreachable": 0}
    (path,) = run_files(cache_folder)
    (cache_folder / "stray").touch()
    result = inspect("--check")
    assert (result.code, result.err) == (0, "")
    assert "stray: not a file of the cache" in result.out and "all is well" in result.out
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)
    result = inspect("--check", "--format", "json")
    assert result.code == 4
    assert result.json["ok"] is False
    assert [damage["file"] for damage in result.json["damaged"]] == ["stray", f"runs/{path.name}"]
    assert "1 thing in the cache folder is damaged" in result.err
    result = inspect("--check")
    assert (result.code, f"runs/{path.name}: " in result.out) == (4, True)
    assert inspect("--repair-index", "--yes").code == 0
    assert inspect("--check").code == 0
    assert document()["entries"] == []


def test_a_lost_index_is_made_anew(
    ask: Run, inspect: Run, document: Any, cache_folder: Path
) -> None:
    ask("hello")
    before = document("--why", "hello")
    for path in cache_folder.glob("index.sqlite*"):
        path.write_bytes(b"not an index")
    result = inspect()
    assert result.code == 4
    assert "--repair-index" in result.err
    assert document("--repair-index", "--yes") == {
        "action": "repair-index",
        "kept": 1,
        "dropped": [],
    }
    assert document("--why", "hello") == before


def test_pin_and_unpin(ask: Run, inspect: Run, document: Any) -> None:
    ask("hello")
    (entry,) = document()["entries"]
    change = {"keys": [entry["key"]], "tokens": entry["tokens"], "bytes": entry["bytes"], "kept": 0}
    assert document("--pin", entry["key"][:8], "--yes") == {"action": "pin", **change}
    assert document()["entries"][0]["pinned"] is True
    assert document()["tiers"][0]["pinned_bytes"] == entry["bytes"]
    assert document("--prune", "all", "--yes")["keys"] == []
    assert document("--unpin", entry["key"], "--yes") == {"action": "unpin", **change}
    assert document("--prune", "all", "--yes") == {"action": "prune", **change}
    assert document()["entries"] == []


def test_nothing_changes_without_a_yes(ask: Run, inspect: Run, document: Any) -> None:
    ask("hello")
    (entry,) = document()["entries"]
    key = entry["key"][:12]
    for args in (["--pin", key], ["--unpin", key], ["--prune", "all"], ["--repair-index"]):
        result = inspect(*args)
        assert (result.code, result.out) == (2, "")
        assert "Add --yes" in result.err
    assert "would remove 1 run" in inspect("--prune", "all").err
    assert key in inspect("--prune", "all").err
    assert document()["entries"] == [entry]


def test_a_missing_cache_is_not_made_by_looking_repairing_or_a_mistake(
    inspect: Run, cache_folder: Path, tmp_path: Path
) -> None:
    for action in (["--repair-index", "--yes"], ["--check"], ["--import", "hf:/nowhere", "--yes"]):
        assert inspect(*action).code in (4, 5)
        assert not cache_folder.exists()


@pytest.mark.parametrize("below", ["x.png", "runs/x.png"])
def test_nothing_is_written_into_the_cache_folder(
    inspect: Run, ask: Run, notes: Path, cache_folder: Path, tmp_path: Path, below: str
) -> None:
    (tmp_path / "link").symlink_to(cache_folder)
    before = sorted(cache_folder.rglob("*"))
    for folder in (cache_folder, tmp_path / "link"):
        target = folder / below
        refused = [
            inspect("--stats", "--plot", target),
            inspect("--export", f"hf:{target}"),
            ask("hello", "--events", target),
            ask("hello", "--append", "--messages", target),
        ]
        for result in refused:
            assert result.code == 2 and "lies in the cache folder" in result.err
    assert sorted(cache_folder.rglob("*")) == before
    assert inspect("--check").code == 0


class Marker:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.report("S71")
@pytest.mark.parametrize("victim", ["run", "index", "import"])
def test_a_pickle_is_never_loaded(
    ask: Run, inspect: Run, document: Any, cache_folder: Path, tmp_path: Path, victim: str
) -> None:
    ask("hello")
    key = document()["entries"][0]["key"]
    marker = tmp_path / "marker"
    payload = pickle.dumps(Marker(marker))
    stranger = tmp_path / "in.safetensors"
    stranger.write_bytes(payload)
    paths = {"run": run_files(cache_folder)[0], "index": cache_folder / "index.sqlite"}
    if victim in paths:
        paths[victim].chmod(0o600)
        paths[victim].write_bytes(payload)
    for args in (
        [],
        ["--tree", "--show-text"],
        ["--why", "hello"],
        ["--diff", key, key],
        ["--check"],
        ["--stats"],
        ["--export", f"hf:{tmp_path / 'out'}", "--key", key],
        ["--import", f"hf:{stranger}", "--yes"],
        ["--pin", key, "--yes"],
        ["--unpin", key, "--yes"],
        ["--prune", "all", "--yes"],
        ["--repair-index", "--yes"],
    ):
        result = inspect(*args)
        assert result.code in (0, 4, 5), (args, result.err)
        assert "internal" not in result.err
    assert ask("hello").code == 0
    assert not marker.exists()
    pickle.loads(payload)  # so that a payload that does nothing does not pass
    assert marker.exists()
