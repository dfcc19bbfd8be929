"""Time to first token of a 1500-token prompt in a new process: from disk against computed.

The model is loaded before the request arrives, so the time is that of the prefill alone.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kvtool.models.load import load_model

PROMPT_TOKENS = 1500
ROUNDS = 5
TARGET = 0.25
ROOT = Path(__file__).parent.parent.parent
VARIANTS = {"computed": ("--no-cache-dir",), "disk": ()}


def run() -> Iterable[dict[str, Any]]:
    text = " ".join(f"Item {i} costs {i * 7 % 101} crowns." for i in range(300))
    prompt = load_model(None).tokenizer.encode(text)[:PROMPT_TOKENS]
    assert len(prompt) == PROMPT_TOKENS
    with TemporaryDirectory() as folder:
        requests = Path(folder) / "requests.jsonl"
        requests.write_text(json.dumps({"prompt": prompt}))
        cache = Path(folder) / "kv"
        first = _reply(requests, cache)  # fills the cache
        assert first["usage"]["cached_tokens"] == 0
        times: dict[str, list[float]] = {name: [] for name in VARIANTS}
        for _ in range(ROUNDS):
            for name, options in VARIANTS.items():
                reply = _reply(requests, cache, *options)
                cached = PROMPT_TOKENS - 1 if name == "disk" else 0
                assert reply["usage"]["cached_tokens"] == cached, reply["usage"]
                assert reply["token_ids"] == first["token_ids"]
                times[name].append(reply["timing"]["ttft_ms"])
        kept = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file())
    medians = {name: round(statistics.median(values), 2) for name, values in times.items()}
    yield {
        "model": "demo",
        "dtype": "float32",
        "prompt_tokens": PROMPT_TOKENS,
        "ttft_ms": medians,
        "disk_to_computed": round(medians["disk"] / medians["computed"], 3),
        "target": TARGET,
        "stored_bytes": kept,
    }


def _reply(requests: Path, cache: Path, *options: str) -> dict[str, Any]:
    command = ("generate", "--batch", str(requests), "--dtype", "fp32", "--max-tokens", "4")
    done = subprocess.run(
        [sys.executable, "-m", "kvtool", *command, *options],
        env={**os.environ, "KVTOOL_CACHE_DIR": str(cache)},
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    reply: dict[str, Any] = json.loads(done.stdout)
    return reply
