"""`kvtool prefill` in processes of their own: at once, one after the other, interrupted."""

from __future__ import annotations

import contextlib
import functools
import json
from pathlib import Path
from typing import Any

import model_files
import processes
import pytest
from command_line import Run
from processes import interrupt, running, wait_until

from kvtool.tiers.disk.catalog import Catalog

LONG = "the quick brown fox jumps over the lazy dog " * 12


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tiny = model_files.tiny_model(max_position_embeddings=60_000)
    return model_files.save_folder(tmp_path_factory.mktemp("models") / "model", tiny)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes.txt"
    path.write_text(LONG)
    return path


@pytest.fixture
def ask(kvtool: Run, model: Path) -> Run:
    """In this process, with a block pool of its own."""
    options = ("--model", model, "--dtype", "fp32", "--max-tokens", "4", "--format", "json")
    return functools.partial(kvtool, "generate", "why?", *options, "--file")


def prefill(model: Path, *args: str | Path) -> list[str]:
    options = ("--model", model, "--dtype", "fp32", "--format", "json")
    return processes.kvtool("prefill", *options, *args)


def damage(folder: Path) -> list[Any]:
    with contextlib.closing(Catalog.open(folder)) as catalog:
        return catalog.check()


@pytest.mark.report("S14")
@pytest.mark.report("S46")
def test_two_at_once_and_a_third_that_starts_from_them(
    model: Path, ask: Run, tmp_path: Path, cache_folder: Path
) -> None:
    """Half of what each computes is the same, half is its own."""
    paths = [tmp_path / f"{name}.txt" for name in ("one", "two")]
    for path in paths:
        path.write_text(LONG + f"{path.stem} " * 100)
    with contextlib.ExitStack() as stack:
        started = [stack.enter_context(running(prefill(model, path))) for path in paths]
        results = [process.communicate(timeout=240) for process in started]
    assert [process.returncode for process in started] == [0, 0]
    for path, (out, err) in zip(paths, results, strict=True):
        (file,) = json.loads(out)["files"]
        assert (file["stored_tokens"], err) == (file["prompt_tokens"], b"")
        assert file["computed_tokens"] > file["prompt_tokens"] // 3  # its own half at least
        warm, cold = ask(path).json, ask(path, "--no-cache-dir").json
        assert warm["usage"]["cached_tokens"] == file["prompt_tokens"]
        assert cold["usage"]["cached_tokens"] == 0
        assert warm["usage"]["prompt_tokens"] == cold["usage"]["prompt_tokens"]
        assert warm["token_ids"] == cold["token_ids"]
    assert damage(cache_folder) == []


@pytest.mark.report("S47")
@pytest.mark.report("S76")
def test_ctrl_c_leaves_a_clean_cache(
    model: Path, notes: Path, ask: Run, cache_folder: Path
) -> None:
    notes.write_text(LONG * 40)
    slowly = ("--max-num-batched-tokens", "16", "--kv-blocks", "4000")
    with running(prefill(model, notes, *slowly)) as process:
        wait_until(lambda: list(cache_folder.rglob("*.safetensors")))
        out, err = interrupt(process)
    assert json.loads(out)["error"]["exit_code"] == 130
    assert err == b"error: interrupted\n"
    assert damage(cache_folder) == []
    notes.write_text(LONG)
    warm, cold = ask(notes).json, ask(notes, "--no-cache-dir").json
    assert 0 < warm["usage"]["cached_tokens"] < warm["usage"]["prompt_tokens"]
    assert warm["token_ids"] == cold["token_ids"]
