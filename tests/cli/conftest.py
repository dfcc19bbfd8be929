"""The command line in this process: its output, its exit code, models loaded once, and its commands
on a tiny model."""

from __future__ import annotations

import functools
import io
import sys
from pathlib import Path
from typing import Any

import model_files
import pytest
from command_line import Result, Run
from simulation.example_document import write_blocks

from kvtool.cli import app


@pytest.fixture(scope="session", autouse=True)
def _models_are_loaded_once() -> Any:
    """A model in memory is the same for every runtime; only reading it takes long."""
    from kvtool.models import load

    once = functools.lru_cache(load.load_model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "load_model", lambda *a, progress=None, **k: once(*a, **k))
        yield


@pytest.fixture(autouse=True)
def _what_can_be_loaded_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny model computes faster than a busy disk delivers; no run here knows that of others."""
    from kvtool.tiers.rates import Rates

    monkeypatch.setattr(Rates, "from_dict", classmethod(lambda cls, _: cls()))


@pytest.fixture
def kvtool(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(*args: str | Path, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        code = app.run([str(arg) for arg in args])
        return Result(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of two layers with a ChatML template; it says nonsense, always the same."""
    return model_files.save_folder(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def generate(kvtool: Run, tiny: Path) -> Run:
    """`kvtool generate` on the tiny model, in fp32."""
    return functools.partial(kvtool, "generate", "--model", tiny, "--dtype", "fp32")


@pytest.fixture
def ask(generate: Run) -> Run:
    return functools.partial(generate, "--max-tokens", "2")


@pytest.fixture
def inspect(kvtool: Run, tiny: Path) -> Run:
    """`kvtool inspect-cache` on the cache folder of the test, with the tiny model for prompts."""

    def run(*args: str | Path) -> Any:
        return kvtool("inspect-cache", "--model", tiny, "--dtype", "fp32", *args)

    return run


@pytest.fixture
def document(inspect: Run) -> Any:
    """The same, as JSON; the exit code is 0."""

    def run(*args: str | Path) -> Any:
        result = inspect(*args, "--format", "json")
        assert result.code == 0, result.err
        assert result.out.count("\n") == 1
        return result.json

    return run


@pytest.fixture
def notes(kvtool: Run, tiny: Path, tmp_path: Path) -> Path:
    """A file whose KV is kept."""
    path = tmp_path / "notes.md"
    path.write_text("The pool has 2048 blocks. A block is freed when nobody uses it.")
    assert kvtool("prefill", path, "--model", tiny, "--dtype", "fp32").code == 0
    return path


@pytest.fixture
def simulate(kvtool: Run) -> Run:
    def run(*args: str | Path, stdin: bytes = b"") -> Result:
        return kvtool("simulate-agent", "--no-advice", *args, stdin=stdin)

    return run


@pytest.fixture
def blocks(tmp_path: Path) -> Path:
    return write_blocks(tmp_path / "blocks.jsonl")
