"""`kvtool inspect-cache mooncake://…` on a real store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import mooncake_cluster
import pytest
from command_line import Run
from mooncake_cluster import Cluster

pytestmark = mooncake_cluster.needed

PROMPT = "the quick brown fox jumps over the lazy dog and sleeps in the sun"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with mooncake_cluster.running(tmp_path_factory.mktemp("mooncake")) as cluster:
        yield cluster


def test_a_store_says_what_it_has_of_a_prompt(
    cluster: Cluster, kvtool: Run, generate: Run, tiny: Path
) -> None:
    options = ("--no-cache-dir", "--remote", cluster.url)
    assert generate(PROMPT, "--max-tokens", "2", *options).code == 0
    model = ("--model", tiny, "--dtype", "fp32", "--format", "json")
    found = kvtool("inspect-cache", cluster.url, "--why", PROMPT, *model)
    assert found.code == 0, found.err
    hit, missed = found.json["spans"]
    assert (hit["kind"], hit["tier"], hit["end"] % 16) == ("hit", "remote", 0)
    assert missed["reason"] == "not_in_store"
    other = kvtool("inspect-cache", cluster.url, "--why", "something else entirely", *model)
    assert other.json["hit_tokens"] == 0


def test_what_a_store_cannot_tell_is_null(cluster: Cluster, kvtool: Run) -> None:
    found = kvtool("inspect-cache", cluster.url, "--format", "json")
    assert found.code == 0, found.err
    (tier,) = found.json["tiers"]
    assert tier.pop("latency_ms") > 0
    assert tier == {
        "name": "remote",
        **dict.fromkeys(("entries", "blocks", "tokens", "bytes", "cap_bytes")),
        "url": cluster.url,
    }
    assert found.json["entries"] is None
    human = kvtool("inspect-cache", cluster.url)
    assert "cannot list what it holds" in human.out
    for action in (["--tree"], ["--check"], ["--prune", "all"], ["--stats"]):
        refused = kvtool("inspect-cache", cluster.url, *action)
        assert (refused.code, "cannot list" in refused.err) == (2, True)


def test_a_store_that_is_not_there(kvtool: Run) -> None:
    url = f"mooncake://127.0.0.1:{mooncake_cluster.free_port()}"
    found = kvtool("inspect-cache", url)
    assert found.code == 4
    assert f"{url} does not answer" in found.err
