"""`--remote` seen from the command line: what is reported of a store, there or not."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import mooncake_cluster
import pytest
from command_line import Run
from mooncake_cluster import Cluster, free_port

pytestmark = mooncake_cluster.needed

PROMPT = "the quick brown fox jumps over the lazy dog " * 6


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with mooncake_cluster.running(tmp_path_factory.mktemp("mooncake")) as cluster:
        yield cluster


@pytest.fixture
def run(kvtool: Run, tiny: Path, tmp_path: Path) -> Run:
    """A command about one file, without a disk."""
    path = tmp_path / "notes.txt"
    path.write_text(PROMPT)
    options = ("--model", tiny, "--dtype", "fp32", "--format", "json", "--no-cache-dir")
    files = {"prefill": (path,), "generate": ("--file", path, "why?", "--max-tokens", "4")}
    return lambda command, *args: kvtool(command, *files[command], *options, *args)


def test_whole_blocks_are_kept_in_the_store(run: Run, cluster: Cluster) -> None:
    with_store = functools.partial(run, "generate", "--remote", cluster.url)
    done = run("prefill", "--remote", cluster.url)
    (file,) = done.json["files"]
    whole = file["prompt_tokens"] // 16 * 16
    assert (done.code, file["tier"], file["stored_tokens"]) == (0, "remote", whole)
    assert done.json["effective"]["remote"] == cluster.url
    (warning,) = done.err.splitlines()
    assert warning.endswith("on remote: only multiples of 16 tokens can be reused here.")
    warm, cold = with_store().json, run("generate").json
    assert warm["cache"]["cached_by_tier"] == {"remote": whole}
    assert warm["token_ids"] == cold["token_ids"]
    assert with_store("--salt", "other").json["usage"]["cached_tokens"] == 0


def test_a_store_that_is_not_there(run: Run) -> None:
    url = f"mooncake://127.0.0.1:{free_port()}"
    expected = run("generate").json["token_ids"]
    answered = run("generate", "--remote", url)
    assert (answered.code, answered.json["token_ids"]) == (0, expected)
    (warning,) = answered.err.splitlines()
    assert warning.startswith("warning: ") and url.removeprefix("mooncake://") in warning
    lost = run("prefill", "--remote", url)
    assert (lost.code, lost.json["files"][0]["stored_tokens"]) == (4, 0)
    assert "error: Nothing is kept of the prompt." in lost.err
