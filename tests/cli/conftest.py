"""The command line in this process: its output, its exit code, and models loaded once."""

from __future__ import annotations

import functools
import io
import sys
from pathlib import Path
from typing import Any

import model_files
import pytest
from command_line import Result, Run

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
