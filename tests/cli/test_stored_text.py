"""Text that one process has stored, moved in the prompt of another."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from model_files import save_folder
from processes import environment, kvtool

OPTIONS = ("--raw", "--block-size", "4")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_folder(tmp_path_factory.mktemp("model"))


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "document.txt"
    path.write_text(" ".join(f"w{i * i % 97}" for i in range(30)))
    return path


def command(cache: Path, *args: str | Path) -> str:
    done = subprocess.run(
        kvtool(*args, "--cache-dir", cache), env=environment(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def reply(cache: Path, model: Path, document: Path, *more: str) -> dict[str, Any]:
    """The document stands behind another text than when it was stored."""
    shift = ("--reuse", "shift", "--ungated", "--min-run", "16", "--repair", "none")
    reuse = () if "--reuse" in more else shift
    text = ("What?", "--file", document, "--system", "Be brief here.", "--max-tokens", "4")
    output = command(
        cache, "generate", *text, *OPTIONS, "--model", model, *reuse, *more, "--format", "json"
    )
    answer: dict[str, Any] = json.loads(output)
    return answer


def test_from_disk_in_a_new_process(model: Path, document: Path, tmp_path: Path) -> None:
    cache = tmp_path / "kv"
    command(cache, "prefill", document, *OPTIONS, "--model", model)
    other = reply(cache, model, document, "--salt", "another")
    assert other["usage"]["shifted_tokens"] == 0, "another namespace"
    moved = reply(cache, model, document)
    assert moved["usage"]["shifted_tokens"] > 90
    (disk,) = (tier for tier in moved["cache"]["tiers"] if tier["name"] == "disk")
    assert disk["loaded_tokens"] > 90
    again = reply(cache, model, document)
    assert again["usage"]["shifted_tokens"] > 90
    assert again["token_ids"] == moved["token_ids"]


def test_damaged_files_are_computed(model: Path, document: Path, tmp_path: Path) -> None:
    cache = tmp_path / "kv"
    command(cache, "prefill", document, *OPTIONS, "--model", model)
    for path in (cache / "runs").glob("*.safetensors"):
        data = bytearray(path.read_bytes())
        data[-20] ^= 1
        path.write_bytes(data)
    answer = reply(cache, model, document)
    assert answer["usage"]["shifted_tokens"] == 0
    cold = reply(tmp_path / "empty", model, document, "--reuse", "prefix")
    assert answer["token_ids"] == cold["token_ids"]
