"""Replies of text are counted, whatever the replay does with them; an export writes the counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from report.replayed import EXAMPLES, TRACES, simulated

from kvtool.report.exports.export import export
from kvtool.simulation.document import document

FORMATS = {"mooncake": "output_length", "weka": "out"}


def lengths(path: Path, field: str) -> list[int]:
    rows: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
    return [one[field] for row in rows for one in row.get("requests", [row])]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_no_option_of_the_replay_changes_an_export(name: str, format: str, tmp_path: Path) -> None:
    written = []
    for output_kv in (False, True):
        source = simulated(TRACES / f"{name}.jsonl", output_kv=output_kv, advice=False)
        path = tmp_path / f"{output_kv}.jsonl"
        export(format, source.workload, path, b"salt")
        written.append(lengths(path, FORMATS[format]))
        counted = document(source)["replay"]["output_tokens"]
        assert counted == sum(written[-1]) == document(source)["input"]["output_tokens"]
        again = simulated(path, output_kv=False, advice=False)
        assert document(again)["replay"]["output_tokens"] == counted
    assert written[0] == written[1] and sum(written[0]) > 0


def test_a_length_that_the_log_states_is_not_counted_anew(tmp_path: Path) -> None:
    reply = {"choices": [{"message": {"role": "assistant", "content": "four words are here"}}]}
    row = {"messages": [{"role": "user", "content": "x"}], "timestamp": 0, "response": reply}
    stated = row | {"response": reply | {"usage": {"completion_tokens": 77}}}
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in (row, stated)))
    source = simulated(path, advice=False)
    export("mooncake", source.workload, tmp_path / "out.jsonl", b"salt")
    counted, kept = lengths(tmp_path / "out.jsonl", "output_length")
    assert 4 <= counted < 20 and kept == 77
