"""New process to its result: help and size-calc, and the first token of a short prompt."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

from interleave import interleaved_ms

KVTOOL = ("-m", "kvtool")
SIZE_CALC = (*KVTOOL, "size-calc", "--layers", "32", "--format", "json")
PROMPT = (*KVTOOL, "generate", "Say hello.", "--max-tokens", "1", "--format", "json")


def run() -> Iterable[dict[str, Any]]:
    yield without_model()
    yield with_model()


def without_model() -> dict[str, Any]:
    """`python` and `import_typer` are what no command can be faster than."""
    assert json.loads(python(*SIZE_CALC))["bytes"] == 2 * 32 * 4096 * 32 * 128 * 2
    commands = {
        "python": ("-c", "pass"),
        "import_typer": ("-c", "import typer"),
        "help": (*KVTOOL, "--help"),
        "generate_help": (*KVTOOL, "generate", "--help"),
        "size_calc": SIZE_CALC,
    }
    return {"ms": times(commands, rounds=20)}


def with_model() -> dict[str, Any]:
    usage = json.loads(python(*PROMPT))["usage"]
    assert usage["completion_tokens"] == 1
    commands = {"first_token": PROMPT, "import_torch": ("-c", "import torch")}
    return {"prompt_tokens": usage["prompt_tokens"], "ms": times(commands, rounds=5)}


def times(commands: dict[str, tuple[str, ...]], rounds: int) -> dict[str, float]:
    variants = {name: lambda args=args: python(*args) for name, args in commands.items()}
    return interleaved_ms(variants, rounds)


def python(*arguments: str) -> bytes:
    """What a new interpreter writes to stdout."""
    return subprocess.run([sys.executable, *arguments], capture_output=True, check=True).stdout
