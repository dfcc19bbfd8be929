"""A trace is read as a stream: what is held does not grow with the file."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvtool.traces.open_trace import open_trace

ROWS, LENGTH = 200, 100_000  # 20 MB
LIMIT = 8 << 20


def rows() -> Iterator[str]:
    for i in range(ROWS):
        row = {"timestamp": 1000 * (i ^ 1), "text_input": str(i % 10) * LENGTH, "output_length": 1}
        yield json.dumps(row)


@pytest.mark.parametrize("form", ["lines", "list"])
def test_twenty_megabytes_are_never_held(form: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with path.open("w") as file:
        file.write("[" * (form == "list"))
        for i, row in enumerate(rows()):
            file.write(("," if form == "list" else "\n") * (i > 0) + row)
        file.write("]" * (form == "list"))
    tracemalloc.start()
    try:
        trace = open_trace([path])
        times = [request.arrival_s for request in trace]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert times == list(range(ROWS))  # every other pair was written the wrong way round
    assert peak < LIMIT < path.stat().st_size
