"""A model behind a store: one process prefills, another answers as if it had done so itself."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import mooncake_cluster
import pytest
import tiny
from mooncake_cluster import Cluster, frozen, stop, wait_until
from processes import environment, kvtool

from kvtool.config import EngineConfig
from kvtool.engine.output import TextOutput
from kvtool.engine.request import Request
from kvtool.engine.sampling import SamplingParams
from kvtool.engine.stream import stream
from kvtool.runtime import Runtime

pytestmark = mooncake_cluster.needed
BLOCK_SIZE = 8
PREFIX = "The Volga is the longest river in Europe. " * 2 + "It ends in a sea"  # 100 tokens
PROMPT = PREFIX + ", which one is it?  "  # 120
NUM_SHARED = 96  # full blocks


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.folder(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def cold(model: Path) -> list[int]:
    """The reply without a store."""
    with opened(model, None) as runtime:
        return list(answer(runtime, PROMPT).output_ids)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Cluster]:
    with mooncake_cluster.running(tmp_path) as cluster:
        yield cluster


@contextlib.contextmanager
def opened(model: Path, store: Cluster | None) -> Iterator[Runtime]:
    config = EngineConfig(
        model=str(model),
        dtype="float32",
        block_size=BLOCK_SIZE,
        no_cache_dir=True,
        remote=store and store.url,
    )
    runtime = Runtime.open(config)
    try:
        yield runtime
    finally:
        runtime.close()


def answer(runtime: Runtime, text: str, salt: str | None = None) -> Request:
    request = Request(
        runtime.tokenizer.encode(text),
        SamplingParams(max_tokens=8),
        namespace=runtime.namespace(salt),
    )
    for _ in stream(runtime.engine, [TextOutput(request, runtime.tokenizer)]):
        runtime.engine.check_integrity()
    return request


def prefill(model: Path, store: Cluster, text: str, folder: Path, *options: str) -> None:
    """In a process of its own."""
    file = folder / "prefix.txt"
    file.write_text(text)
    same: Sequence[str | Path] = ("-m", model, "--dtype", "float32", "--block-size", "8", "--raw")
    where = ("--no-cache-dir", "--remote", store.url)
    command = kvtool("prefill", file, *same, *where, *options)
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.report("S46")
def test_only_the_tail_is_computed(
    model: Path, cold: list[int], cluster: Cluster, tmp_path: Path
) -> None:
    prefill(model, cluster, PREFIX, tmp_path)
    with opened(model, cluster) as runtime:
        request = answer(runtime, PROMPT)
    assert request.usage.prompt_tokens == 120
    assert request.cached_by_tier == {"remote": NUM_SHARED}
    assert request.usage.computed_tokens == 120 - NUM_SHARED
    assert list(request.output_ids) == cold


@pytest.mark.report("S65")
@pytest.mark.report("S68")
def test_a_salt_isolates_in_the_store(model: Path, cluster: Cluster) -> None:
    text = "Salted. " * 12
    with opened(model, cluster) as runtime:
        assert answer(runtime, text, "a").usage.cached_tokens == 0
    with opened(model, cluster) as runtime:
        assert answer(runtime, text, "b").usage.cached_tokens == 0
    with opened(model, cluster) as runtime:
        assert answer(runtime, text).usage.cached_tokens == 0
        assert answer(runtime, text, "a").usage.cached_tokens > 80


def test_a_lender_that_freezes_half_way(model: Path, cold: list[int], own: Cluster) -> None:
    """The store says the blocks are there; reading them takes too long."""
    with opened(model, own) as runtime:
        answer(runtime, PROMPT)
        assert runtime.flush(30)
    with opened(model, own) as runtime:
        with frozen(own.owner):
            request = answer(runtime, PROMPT)
        assert list(request.output_ids) == cold
        assert request.usage.cached_tokens == 0
        assert runtime.engine.metrics.failed_loads == 1


def test_a_master_that_dies_and_comes_back_empty(
    model: Path, cold: list[int], own: Cluster
) -> None:
    with opened(model, own) as runtime:
        answer(runtime, PREFIX)
        assert runtime.flush(30)
        stop(own.master)
        assert list(answer(runtime, PROMPT).output_ids) == cold
        assert runtime.flush(30)
    own.restart_master()
    with opened(model, own) as runtime:
        request = answer(runtime, PROMPT)
        assert (list(request.output_ids), request.usage.cached_tokens) == (cold, 0)
        assert runtime.flush(30)
    with opened(model, own) as runtime:
        wait_until(lambda: answer(runtime, PROMPT).usage.cached_tokens > 0)
        assert list(answer(runtime, PROMPT).output_ids) == cold
