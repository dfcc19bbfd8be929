"""A cache folder that is full, read-only, damaged or somebody else's, seen from the command line."""

from __future__ import annotations

import errno
import functools
import os
from pathlib import Path
from typing import Any, NoReturn

import pytest
from command_line import Result, Run

PROMPT = "the quick brown fox jumps over the lazy dog " * 6


@pytest.fixture
def ask(generate: Run) -> Run:
    return functools.partial(generate, PROMPT, "--max-tokens", "6", "--format", "json")


@pytest.fixture
def prefill(kvtool: Run, tiny: Path, tmp_path: Path) -> Run:
    path = tmp_path / "notes.txt"
    path.write_text(PROMPT)
    return functools.partial(kvtool, "prefill", path, "--model", tiny, "--dtype", "fp32")


def failing(number: int) -> Any:
    def fail(*_: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    return fail


def warnings(result: Result) -> list[str]:
    """The lines of stderr, all of which are warnings."""
    lines = result.err.splitlines()
    assert all(line.startswith("warning: ") for line in lines), result.err
    return lines


def test_no_cache_dir_leaves_no_file(ask: Run, cache_folder: Path) -> None:
    for options in (("--no-cache-dir",), ("--reuse", "none")):
        result = ask(*options)
        assert (result.code, result.err) == (0, "")
        assert result.json["effective"]["cache_dir"] is None
        assert result.json["cache"]["tiers"] == []
    assert not cache_folder.exists()


def test_the_folder_that_is_used(ask: Run, cache_folder: Path, tmp_path: Path) -> None:
    assert ask().json["effective"]["cache_dir"] == str(cache_folder)
    (tmp_path / "link").symlink_to("real")
    other = ask("--cache-dir", tmp_path / "link", "--durable", "--cache-size", "1MiB").json
    assert other["usage"]["cached_tokens"] == 0
    effective = other["effective"]
    assert effective["cache_dir"] == str(tmp_path / "real")
    assert (effective["durable"], effective["cache_size"]) == (True, 2**20)
    assert list((tmp_path / "real").rglob("*.safetensors"))


@pytest.mark.report("S51")
@pytest.mark.parametrize(
    ("number", "said"), [(errno.ENOSPC, "the disk is full"), (errno.EROFS, "is read-only")]
)
def test_a_disk_that_takes_nothing(
    ask: Run,
    prefill: Run,
    cache_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    said: str,
) -> None:
    expected = ask("--no-cache-dir").json["token_ids"]
    call = "os.writev" if number == errno.ENOSPC else "kvtool.tiers.disk.store.create_private"
    monkeypatch.setattr(call, failing(number))
    for _ in range(2):
        result = ask()
        assert (result.code, result.json["token_ids"]) == (0, expected)
        (warning,) = warnings(result)
        assert said in warning
        (tier,) = result.json["cache"]["tiers"]
        assert tier["stored_blocks"] == 0 and any(said in reason for reason in tier["not_stored"])
    lost = prefill("--format", "json")
    assert (lost.code, lost.json["files"][0]["stored_tokens"]) == (4, 0)
    assert f"0 of {lost.json['files'][0]['prompt_tokens']} tokens are kept on disk" in lost.err
    assert said in lost.err and "error: Nothing is kept of the prompt." in lost.err
    assert not list(cache_folder.rglob("*.safetensors"))


def test_a_folder_that_cannot_be_made(ask: Run, prefill: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    folder = ("--cache-dir", tmp_path / "file" / "kv")
    result = ask(*folder)
    assert (result.code, result.json["usage"]["cached_tokens"]) == (0, 0)
    assert len(warnings(result)) == 1
    assert prefill(*folder).code == 4


@pytest.mark.parametrize("whose", ["another program's", "another user's"])
def test_somebody_elses_folder(
    ask: Run, cache_folder: Path, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    cache_folder.mkdir()
    if whose == "another user's":
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    else:
        (cache_folder / "thesis.txt").write_text("precious")
    before = sorted(cache_folder.iterdir())
    result = ask()
    assert (result.code, result.json["error"]["type"]) == (4, "CacheError")
    error, hint = result.err.splitlines()
    assert error.startswith("error: ") and hint.startswith("hint: ")
    assert sorted(cache_folder.iterdir()) == before


@pytest.mark.report("S44")
def test_a_damaged_file_is_computed_again(ask: Run, cache_folder: Path) -> None:
    expected = ask().json
    for path in cache_folder.rglob("*.safetensors"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.chmod(0o600)
        path.write_bytes(data)
    result = ask()
    assert (result.code, result.json["token_ids"]) == (0, expected["token_ids"])
    assert any("damaged" in warning for warning in warnings(result))
    again = ask()
    assert (again.err, again.json["token_ids"]) == ("", expected["token_ids"])
    assert again.json["usage"]["computed_tokens"] == 1


def test_stats_show_what_each_tier_did(ask: Run, generate: Run) -> None:
    cold, warm = ask("--stats"), ask("--stats")
    tokens = warm.json["usage"]["cached_tokens"]
    assert warm.json["cache"]["cached_by_tier"] == {"disk": tokens}
    assert "cached tokens from        nowhere" in cold.err
    assert f"cached tokens from        {tokens} disk" in warm.err
    assert f"disk loaded               {tokens + 1} tokens (" in warm.err
    assert "loading took " in warm.err and "computing takes " in warm.err
    assert "disk stored               0 tokens (0 B)" in warm.err
    without = ask("--stats", "--no-cache-dir")
    assert "disk" not in without.err and "cached tokens from" not in without.err
