"""New process to first output: help, and the first token of a short prompt."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

from interleave import interleaved_ms

ROUNDS = 5


def run() -> Iterable[dict[str, Any]]:
    kvtool = [sys.executable, "-m", "kvtool"]
    prompt = [*kvtool, "generate", "Say hello.", "--max-tokens", "1", "--format", "json"]
    usage = json.loads(subprocess.run(prompt, capture_output=True, check=True).stdout)["usage"]
    assert usage["completion_tokens"] == 1
    times = interleaved_ms(
        {
            "help": lambda: subprocess.run([*kvtool, "--help"], capture_output=True, check=True),
            "first_token": lambda: subprocess.run(prompt, capture_output=True, check=True),
            "import_torch": lambda: subprocess.run(
                [sys.executable, "-c", "import torch"], check=True
            ),
        },
        ROUNDS,
    )
    yield {"prompt_tokens": usage["prompt_tokens"], "ms": times}
