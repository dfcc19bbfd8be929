"""Mistakes at `kvtool inspect-cache`, and names that are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import Run
from tiers.disk.disk_runs import run_files


@pytest.mark.parametrize(
    ("args", "code", "named"),
    [
        (["--tree", "--check"], 2, "--tree and --check exclude each other"),
        (["--why", "a", "--diff", "a", "b"], 2, "--why and --diff exclude"),
        (["--file", "x", "--tree"], 2, "--tree and --file exclude"),
        (["--pin", "a", "--unpin", "b"], 2, "--pin and --unpin exclude"),
        (["--why", "--file"], 2, "'--file' is no PROMPT"),
        (["--why"], 2, "requires an argument"),
        (["--diff", "a"], 2, "--diff"),
        (["--show-text"], 2, "--show-text goes with --tree or --diff"),
        (["--key", "a"], 2, "--key goes with --stats or --export"),
        (["--plot", "a.svg"], 2, "--plot goes with --stats"),
        (["--raw"], 2, "--raw goes with --why or --diff"),
        (["--yes"], 2, "--yes goes with"),
        (["--prune", "old"], 2, "allowed: all, older:AGE"),
        (["--prune", "older:7"], 2, "older:AGE"),
        (["--export", "out"], 2, "hf:PATH"),
        (["--import", "hf:"], 2, "hf:PATH"),
        (["--import", "hf:-", "--yes"], 2, "hf:PATH"),
        (["--export", "hf:-"], 2, "hf:PATH"),
        (["--diff", "00", "nowhere.txt"], 4, "no cache in"),
        (["/a", "--cache-dir", "/b"], 2, "DIR is '/a' and --cache-dir is '/b'; give one"),
        (["/nowhere/at-all", "--repair-index", "--yes"], 4, "no cache in"),
        (["--import", "hf:/nowhere/in", "--yes"], 5, "/nowhere/in is not a file"),
        (["http://127.0.0.1:1"], 2, "mooncake://"),
        (["mooncake://127.0.0.1:1", "--tree"], 2, "cannot list"),
        (["/nowhere/at-all"], 4, "no cache in /nowhere/at-all"),
        (["/nowhere/at-all", "--check"], 4, "no cache in"),
        ([], 4, "no cache in"),
        (["--why", "a"], 4, "no cache in"),
    ],
)
def test_mistakes(kvtool: Run, args: list[str], code: int, named: str) -> None:
    result = kvtool("inspect-cache", *args)
    assert (result.code, result.out) == (code, "")
    assert named in result.err
    assert result.err.startswith("error: ")
    as_json = kvtool("inspect-cache", "--format", "json", *args)
    assert as_json.json["error"]["exit_code"] == code


@pytest.mark.parametrize(
    ("args", "code", "named"),
    [
        (["--why", "a", "--file", "/nowhere"], 5, "Cannot read '/nowhere'"),
        (["--why", ""], 5, "PROMPT is empty"),
        (["--why", "a", "--messages", "-", "--file", "-"], 2, "named twice"),
        (["--messages", "-", "--system", "s"], 2, "has its own system message"),
        (["--why", "a", "--model", "/nowhere/model"], 3, "/nowhere/model"),
        (["--diff", "00", "01", "--raw"], 2, "--diff of two files"),
        (["--diff", "00", "01"], 4, "No run's key begins with '00'"),
        (["--diff", "00", "a.txt"], 2, "'00' is a key, 'a.txt' a file"),
        (["--diff", "nowhere.txt", "a.txt"], 5, "Cannot read 'nowhere.txt'"),
        (["--diff", "-", "-"], 2, "named twice"),
        (["--diff", "", "a.txt"], 5, "Cannot read ''"),
        (["--pin", "00", "--yes"], 4, "No run's key begins with '00'"),
        (["--prune", "00", "--yes"], 4, "No run's key begins with '00'"),
        (["--import", "hf:/nowhere/in", "--yes"], 5, "/nowhere/in"),
    ],
)
def test_mistakes_about_what_is_stored(
    notes: Path, inspect: Run, args: list[str], code: int, named: str
) -> None:
    result = inspect(*args)
    assert (result.code, result.out) == (code, "")
    assert named in result.err
    assert result.err.startswith("error: ")


def test_a_folder_that_is_no_cache(kvtool: Run, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    result = kvtool("inspect-cache", tmp_path)
    assert result.code == 4
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


@pytest.mark.report("S70")
@pytest.mark.parametrize(
    "name", ["../x", "/nowhere/x", "a/../../x", "x\x00y", "a" * 300, "CON", "*", "?", ".", "%2e"]
)
def test_names_of_runs_never_become_paths(
    ask: Run, inspect: Run, name: str, cache_folder: Path
) -> None:
    ask("hello")
    before = {path: path.stat().st_size for path in run_files(cache_folder)}
    for action in (["--pin"], ["--unpin"], ["--stats", "--key"], ["--prune"]):
        result = (
            inspect(*action, name, "--yes") if "--key" not in action else inspect(*action, name)
        )
        assert result.code in (2, 4), result.err
        assert "internal" not in result.err
    assert inspect("--diff", name, name).code in (4, 5)  # a key, or a file that the user names
    assert {path: path.stat().st_size for path in run_files(cache_folder)} == before


@pytest.mark.report("S74")
def test_no_name_in_a_message_reaches_the_terminal(kvtool: Run, tiny: Path, tmp_path: Path) -> None:
    odd = tmp_path / "\x1b[2J\x07\x9b"
    odd.mkdir()
    (odd / "empty").touch()
    (odd / "bad").write_bytes(b"\xff")
    model = ("--model", tiny, "--dtype", "fp32")
    for args in (
        ("inspect-cache", odd / "nowhere"),
        ("inspect-cache", "--import", f"hf:{odd}/no", "--yes"),
        ("prefill", odd / "empty", *model),
        ("prefill", odd / "bad", *model),
        ("generate", "--messages", odd / "bad", *model),
        ("generate", "x", "--model", odd),
    ):
        result = kvtool(*args)
        assert result.code in (3, 4, 5)
        assert result.out + result.err.replace("\n", "") == printable_only(result)
        assert "\\x1b[2J" in result.err


def printable_only(result: Any) -> str:
    return "".join(c for c in result.out + result.err if c.isprintable())
