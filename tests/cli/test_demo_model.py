"""The model that runs when none is named: the answer, the ids, the examples of the help."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import Run

from kvtool.cli import generate as generate_command
from kvtool.cli import prefill as prefill_command

ROOT = Path(__file__).parent.parent.parent
MAX_TOKENS = 6

PROMPTS = (
    "What is the capital of France?",
    "What is the capital of Italy? Answer in one word.",
    "Count from one to ten.",
    "Name three colours.",
    "Write a haiku about rain.",
    "What is 2 + 2?",
    "Translate to French: good morning.",
    "Who wrote Hamlet?",
    "List the days of the week.",
    "Why is the sky blue?",
    "Give me a synonym for happy.",
    "What does a compiler do?",
    "Explain recursion to a child.",
    "Was ist ein Apfel?",
    "日本の首都はどこですか。",
    "Say 🦙 twice.",
    "def fibonacci(n):",
    "1, 1, 2, 3, 5, 8,",
    "x",
    "Summarise: the pool has blocks, the blocks have slots, the slots hold keys and values. " * 3,
)


@pytest.fixture(scope="module")
def transformers_ids() -> dict[str, list[int]]:
    """What the model says by itself: `transformers.generate`, greedy, fp32."""
    from kvtool.models import load

    loaded = load.load_model(None, revision=None, device="auto", dtype="float32")
    replies = {}
    for prompt in PROMPTS:
        ids = loaded.tokenizer.encode_chat([{"role": "user", "content": prompt}])
        out = loaded.model.generate(
            torch.tensor([ids]),
            attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            max_new_tokens=MAX_TOKENS,
            do_sample=False,
        )
        replies[prompt] = out[0, len(ids) :].tolist()
    return replies


def test_the_capital_of_france(kvtool: Run) -> None:
    result = kvtool("generate", PROMPTS[0], "--max-tokens", "16", "--format", "json")
    assert result.code == 0
    assert "Paris" in result.json["text"]
    assert result.json["finish_reason"] == "eos"


@pytest.mark.report("S80")
@pytest.mark.parametrize("together", [1, len(PROMPTS)])
def test_ids_equal_transformers(
    kvtool: Run, transformers_ids: dict[str, list[int]], together: int
) -> None:
    lines = "\n".join(json.dumps({"prompt": prompt}) for prompt in PROMPTS).encode()
    options = ("--max-tokens", MAX_TOKENS, "--max-num-seqs", together, "--dtype", "fp32", "--stats")
    result = kvtool("generate", "--batch", "-", *options, stdin=lines)
    assert result.code == 0
    assert [line["token_ids"] for line in result.lines] == list(transformers_ids.values())
    assert f"and {together} request{'s' * (together > 1)} in one step" in result.err


def stdin_and_arguments(example: str) -> tuple[bytes, list[str]]:
    words = shlex.split(example)
    if words[0] == "echo":
        return words[1].encode() + b"\n", words[4:]
    return b"", words[1:]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache folder, as one user has."""
    return tmp_path_factory.mktemp("kept")


@pytest.mark.parametrize("example", prefill_command.EXAMPLES + generate_command.EXAMPLES)
def test_examples_of_the_help(kvtool: Run, example: str, kept: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("KVTOOL_CACHE_DIR", str(kept))
    stdin, arguments = stdin_and_arguments(example)
    result = kvtool(*arguments, "--dtype", "fp32", stdin=stdin)
    assert result.code == 0, result.err
    assert result.out.strip()


def test_readme_shows_what_verify_prints(kvtool: Run, monkeypatch: Any, tmp_path: Path) -> None:
    """All but the last bits, which belong to a machine; of shorter replies to the same prompts."""
    monkeypatch.chdir(ROOT)
    block = (ROOT / "README.md").read_text().split("```\n")[1].splitlines()
    command = shlex.split(block[0].removeprefix("$ kvtool ").partition(" > ")[0])
    place = command.index("--batch") + 1
    prompts = [json.loads(line) for line in Path(command[place]).read_text().splitlines()]
    batch = tmp_path / "batch.jsonl"
    batch.write_text("".join(json.dumps(line | {"max_tokens": 4}) + "\n" for line in prompts))
    command[place] = str(batch)
    printed = kvtool(*command, "--dtype", "fp32").err.splitlines()
    shown = [line for line in block[1:] if "worst" not in line]
    assert [line for line in printed if "worst" not in line] == shown
