"""Small traces on disk."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from kvtool.errors import InputError
from kvtool.traces.open_trace import Trace, open_trace

Row = dict[str, Any]


def write_rows(path: Path, rows: Iterable[Row | str]) -> Path:
    """One row a line; text is written as it is."""
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def opened(folder: Path, *rows: Row | str, **options: Any) -> Trace:
    return open_trace([write_rows(folder / "trace.jsonl", rows)], **options)


def refused(folder: Path, *rows: Row | str, **options: Any) -> str:
    """The message of the error that these rows cause."""
    with pytest.raises(InputError) as error:
        opened(folder, *rows, **options)
    return error.value.message


def blocks(*hash_ids: int | str, tokens: int | None = None, **fields: Any) -> Row:
    """A Mooncake row in blocks of 512 tokens."""
    length = 512 * len(hash_ids) if tokens is None else tokens
    return {"timestamp": 0, "input_length": length, "output_length": 1} | {
        "hash_ids": list(hash_ids),
        **fields,
    }
