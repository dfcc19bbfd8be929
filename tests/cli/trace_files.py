"""Traces that tests of `kvtool simulate-agent` write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from simulation.example_document import TRACES

APPEND = TRACES / "append.jsonl"
MESSAGES = [{"role": "user", "content": "hello"}]


def trace(path: Path, *rows: Any) -> Path:
    """Rows as JSON; text as it is."""
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path
