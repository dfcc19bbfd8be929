"""A runtime and what lies below its pool: opened last, flushed or dropped, never mixed up."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny

from kvtool.config import EngineConfig
from kvtool.engine.request import Request
from kvtool.engine.sampling import SamplingParams
from kvtool.errors import CacheError, ConfigError
from kvtool.runtime import Runtime

PROMPTS = [[kind, *range(10, 60)] for kind in (3, 4, 5)]  # 51 tokens: 4 blocks of 16


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.folder(tmp_path_factory.mktemp("model")))


@contextlib.contextmanager
def opened(model: str, *, flush: bool = True, **options: Any) -> Iterator[Runtime]:
    runtime = Runtime.open(EngineConfig(model=model, dtype="float32", **options))
    try:
        yield runtime
    finally:
        runtime.close(flush=flush)


def ask(runtime: Runtime, prompt: list[int], salt: str | None = None) -> Request:
    request = Request(prompt, SamplingParams(max_tokens=2), namespace=runtime.namespace(salt))
    for _ in runtime.engine.run([request]):
        pass
    return request


@pytest.mark.report("S65")
@pytest.mark.report("S68")
def test_salts_are_isolated_in_host_memory(model: str) -> None:
    """The pool has room for one prompt, so what is found again comes from below."""
    with opened(model, kv_blocks=4, host_memory=2**20, no_cache_dir=True) as runtime:
        for salt in ("a", "b", "", None):
            assert ask(runtime, PROMPTS[0], salt).usage.cached_tokens == 0
            ask(runtime, PROMPTS[1], salt)
            ask(runtime, PROMPTS[2], salt)
            assert runtime.flush()
        for salt in ("a", "b", "", None):
            found = ask(runtime, PROMPTS[0], salt).cached_by_tier
            assert found == {"host": len(PROMPTS[0]) - 1}


def test_rates_are_known_to_the_next_run(model: str) -> None:
    prompt = [3, *range(10, 200)]
    with opened(model) as runtime:
        ask(runtime, prompt)
        assert runtime.storage.rates.compute_rate
    with opened(model) as runtime:
        assert set(runtime.storage.rates.as_dict()) == {"compute"}
        ask(runtime, prompt)
    with opened(model) as runtime:
        assert set(runtime.storage.rates.as_dict()) == {"compute", "disk"}
    with opened(model, block_size=8) as runtime:
        assert runtime.storage.rates.as_dict() == {}


@pytest.mark.parametrize(
    "options",
    [
        {"max_model_len": 10**6},
        {"kv_blocks": 10**12},
        {"host_memory": 1},
        {"host_memory": 2**60},
        {"remote": "http://host:1"},
        {"events": "/nowhere/at/all"},
        {"threads": 10**6},
    ],
)
def test_a_run_that_cannot_start_leaves_no_folder(
    model: str, cache_folder: Path, options: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError), opened(model, **options):
        pass
    assert not cache_folder.exists()


def test_a_folder_that_is_no_cache_ends_the_run(model: str, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(CacheError) as refused, opened(model, cache_dir=str(tmp_path)):
        pass
    assert refused.value.hint is not None
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_what_was_not_flushed_may_be_lost_and_nothing_else(model: str) -> None:
    """Closing at once, in the middle of a save, leaves a cache that answers rightly."""
    with opened(model, no_cache_dir=True) as runtime:
        expected = ask(runtime, PROMPTS[0]).output_ids
    for _ in range(3):
        with opened(model, flush=False) as runtime:
            assert ask(runtime, PROMPTS[0]).output_ids == expected
    with opened(model) as runtime:
        ask(runtime, PROMPTS[0])
    with opened(model) as runtime:
        request = ask(runtime, PROMPTS[0])
        assert request.usage.cached_tokens == len(PROMPTS[0]) - 1
        assert request.output_ids == expected
