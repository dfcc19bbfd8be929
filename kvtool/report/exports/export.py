"""The formats that a trace can be written in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from kvtool.names import Table, lookup
from kvtool.report.exports.salted_ids import SaltedIds
from kvtool.simulation.workload import Workload


class Writer(Protocol):
    """Yields JSON-able records, a line each. Raises `InputError` for a trace that the format cannot
    hold, before the first."""

    def __call__(self, workload: Workload, ids: SaltedIds) -> Iterator[Mapping[str, Any]]: ...


EXPORTS: Table = {
    "mooncake": "kvtool.report.exports.mooncake:records",
    "weka": "kvtool.report.exports.weka:records",
    "openai": "kvtool.report.exports.openai:records",
}


def export(format: str, workload: Workload, path: Path, salt: bytes | None = None) -> int:
    """Requests written, in the order of the workload (WEKA: by session). mooncake and weka hold no
    text, and no id or name of the trace but those of models; openai is the text. salt: of the ids,
    at most 64 bytes; by default random and forgotten, so that nobody can find out a text by
    hashing guesses. Raises `InputError` for a trace that the format has no place for."""
    writer: Writer = lookup(EXPORTS, format, "export format")
    with path.open("w", encoding="utf-8") as file:
        for record in writer(workload, SaltedIds(salt)):
            file.write(json.dumps(record, allow_nan=False) + "\n")
    return len(workload)
