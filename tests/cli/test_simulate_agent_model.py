"""`kvtool simulate-agent --model`: the trace on a real engine, in the same document."""

from __future__ import annotations

import functools
import json
import shlex
from pathlib import Path
from typing import Any

import model_files
import pytest
from command_line import Run
from processes import ROOT
from simulation.test_document import KEYS

from kvtool.cli.simulate_agent import EXAMPLES

SYSTEM = {"role": "system", "content": "You answer in one word. the quick brown fox jumps"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    long = model_files.tiny_model(max_position_embeddings=2048)
    return model_files.save_folder(tmp_path_factory.mktemp("models") / "long", long)


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    """Two conversations of three turns that share a system prompt; replies are recorded."""
    lines = []
    for who in ("ann", "bob"):
        messages: list[dict[str, Any]] = [SYSTEM]
        for turn in range(3):
            messages = [*messages, {"role": "user", "content": f"{who} asks {turn}"}]
            reply = {"role": "assistant", "content": f"dog {turn}"}
            row = {"id": f"{who}-{turn}", "session_id": who, "messages": messages}
            lines.append(json.dumps({**row, "response": {"choices": [{"message": reply}]}}))
            messages = [*messages, reply]
    path = tmp_path / "chat.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture
def simulate(kvtool: Run) -> Run:
    return functools.partial(kvtool, "simulate-agent", "--no-advice", "--format", "json")


def test_measured_and_verified(simulate: Run, model: Path, chat: Path) -> None:
    result = simulate(chat, "--model", model, "--dtype", "fp32", "--verify")
    assert result.code == 0, result.err
    found = result.json
    assert tuple(found) == KEYS
    engine, replay = found["engine"], found["replay"]
    assert [row["id"] for row in engine["requests"]] == [
        *("ann-0", "ann-1", "ann-2", "bob-0", "bob-1", "bob-2")
    ]
    for row in engine["requests"]:
        parts = ("cached_tokens", "shifted_tokens", "recomputed_tokens", "computed_tokens")
        assert row["prompt_tokens"] == sum(row[part] for part in parts)
        assert row["ttft_ms"] > 0 and row["verify"]["verdict"] in ("identical", "within tolerance")
    assert engine["usage"]["cached_tokens"] == replay["cached_tokens"] > 0
    assert engine["quality"]["top1_agreement"] == 1.0 and engine["quality"]["requests"] == 6
    assert (replay["engine"], replay["clock"], replay["cost"]) == ("model", "measured", None)
    assert found["effective"]["dtype"] == "float32" and found["effective"]["output_kv"]
    assert "chat template" in found["input"]["tokenizer"]["name"]
    assert all(found["invariants"].values())
    assert sum(found["misses"]["causes"].values()) == found["misses"]["total_tokens"]


@pytest.mark.parametrize("capacity", [12, 200])
def test_accounting_says_what_the_engine_does(
    simulate: Run, model: Path, chat: Path, capacity: int
) -> None:
    blocks = ("--capacity", str(capacity))
    real = simulate(chat, "--model", model, *blocks).json
    told = simulate(chat, "--tokenizer", model, "--output-kv", *blocks).json
    for key in ("hit_tokens", "cached_tokens", "computed_tokens", "evicted_blocks"):
        assert real["replay"][key] == told["replay"][key], key
    assert real["misses"]["causes"] == told["misses"]["causes"]
    assert real["replay"]["capacity_blocks"] == told["replay"]["capacity_blocks"] == capacity
    assert real["hit_rates"] == told["hit_rates"]


def test_every_run_starts_cold_unless_a_folder_is_named(
    simulate: Run, model: Path, chat: Path, cache_folder: Path, tmp_path: Path
) -> None:
    first = simulate(chat, "--model", model).json
    again = simulate(chat, "--model", model).json
    assert first["engine"]["usage"] == again["engine"]["usage"]
    assert first["effective"]["cache_dir"] is None and not cache_folder.exists()
    kept = (chat, "--model", model, "--cache-dir", tmp_path / "kv")
    simulate(*kept)
    warm = simulate(*kept).json
    assert warm["replay"]["cached_by_tier"]["disk"] > 0


def test_calibrated_rates(simulate: Run, model: Path, chat: Path) -> None:
    found = simulate(chat, "--model", model, "--calibrate").json
    replay = found["replay"]
    assert (replay["engine"], found["engine"]) == ("simulated", None)
    assert replay["cost"]["prefill_rate"] not in (0, 10_000.0)
    assert found["effective"]["prefill_rate"] == replay["cost"]["prefill_rate"]
    assert "chat template" in found["input"]["tokenizer"]["name"]


def test_replies_of_the_model_itself(simulate: Run, model: Path, chat: Path) -> None:
    found = simulate(chat, "--model", model, "--replies", "generate", "--replay", "arrival")
    assert found.code == 5 and "no arrival time" in found.err
    found = simulate(chat, "--model", model, "--replies", "generate")
    assert found.code == 0, found.err
    assert found.json["effective"]["replies"] == "generate"


def test_moved_text_is_approximate(simulate: Run, model: Path, tmp_path: Path) -> None:
    text = "the lazy dog jumps over the quick brown fox and back " * 6
    rows = [{"messages": [{"role": "user", "content": f"{head}{text}"}]} for head in ("a ", "bcd ")]
    path = tmp_path / "moved.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ("--reuse", "shift", "--ungated", "--min-run", "32", "--repair", "first:16")
    found = simulate(path, "--model", model, *options, "--verify").json
    second = found["engine"]["requests"][1]
    assert second["shifted_tokens"] > 0
    assert second["verify"]["verdict"] == "approximate" and second["verify"]["tolerance"] is None
    assert found["replay"]["shifted_tokens"] == second["shifted_tokens"]
    assert all(found["invariants"].values())


def test_summary(kvtool: Run, model: Path, chat: Path) -> None:
    result = kvtool("simulate-agent", chat, "--model", model, "--verify", "--no-advice")
    assert result.code == 0, result.err
    assert "Measured on" in result.out and "6 replies verified" in result.out
    assert "on the model" in result.out and "ann-0" in result.out


def test_a_model_needs_text(kvtool: Run, tmp_path: Path) -> None:
    path = tmp_path / "azure.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,374,44\n")
    result = kvtool("simulate-agent", path, "--model", "demo")
    assert result.code == 2 and "a trace of lengths" in result.err


@pytest.mark.parametrize("example", [line for line in EXAMPLES if "demo" in line])
def test_examples_of_the_help(kvtool: Run, example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = kvtool(*shlex.split(example)[1:])
    assert result.code == 0, result.err
    assert result.out.strip()
