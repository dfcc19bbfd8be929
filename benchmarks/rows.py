"""A measured row and where it was measured; the only source of numbers in README and docs."""

from __future__ import annotations

import json
import platform
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kvtool import __version__

RESULTS = Path(__file__).parent / "results"


def machine() -> dict[str, Any]:
    """What a reader needs to judge a figure: processor, cores, versions, commit."""
    import torch

    cpu = "unknown"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].split(":", 1)[1].strip() if names else cpu
    return {
        "cpu": cpu,
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "python": platform.python_version(),
        "versions": {
            "kvtool": __version__,
            **{name: version(name) for name in ("torch", "transformers")},
        },
        "commit": _git("rev-parse", "--short", "HEAD")
        + ("+" if _git("status", "--porcelain") else ""),
        "command": f"python {shlex.join(sys.argv)}",
    }


def append(case: str, row: dict[str, Any]) -> None:
    """One JSON line in results/<case>.jsonl."""
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / f"{case}.jsonl").open("a") as file:
        file.write(json.dumps({"case": case, **row, **machine()}, allow_nan=False) + "\n")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=RESULTS.parent)
    return done.stdout.strip()
