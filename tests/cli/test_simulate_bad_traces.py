"""`kvtool simulate-agent` on traces that are odd, or wrong: what is read, skipped and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli.trace_files import MESSAGES, trace
from command_line import Run

OK, BAD = {"messages": MESSAGES}, '{"messages": '


ODD = {
    "bom": b"\xef\xbb\xbf" + json.dumps(OK).encode() + b"\n",
    "crlf": json.dumps(OK).encode() + b"\r\n" + json.dumps(OK).encode() + b"\r\n",
    "no newline at the end": json.dumps(OK).encode(),
    "null content": json.dumps(
        {"messages": [*MESSAGES, {"role": "assistant", "content": None}]}
    ).encode(),
    "list content": json.dumps(
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]}
    ).encode(),
    "huge line": json.dumps({"messages": [{"role": "user", "content": "ab " * 400_000}]}).encode(),
    "backwards": b"".join(
        json.dumps({"messages": MESSAGES, "timestamp": time}).encode() + b"\n" for time in (9, 4)
    ),
    "same id": b"".join(
        json.dumps({"messages": MESSAGES, "id": "x"}).encode() + b"\n" for _ in "ab"
    ),
    "mixed models": b"".join(
        json.dumps({"messages": MESSAGES, "model": model}).encode() + b"\n" for model in "ab"
    ),
}


@pytest.mark.report("S57")
@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([], "trace.jsonl is empty"),
        ([OK, BAD], "trace.jsonl:2"),
        ([OK, "not json"], "trace.jsonl:2"),
        ([OK, "[]"], "trace.jsonl:2"),
        ([OK, '{"messages": [], "timestamp": NaN}'], "trace.jsonl:2"),
        ([{"timestamp": -1, "input_length": 5, "hash_ids": [1]}], "trace.jsonl:1"),
        ([{"timestamp": 1, "input_length": 20, "hash_ids": [1, 2, 3]}] * 2, "trace"),
        (["just text"], "trace.jsonl"),
    ],
)
def test_bad_records_end_with_place_and_reason(
    simulate: Run, tmp_path: Path, rows: list[Any], told: str
) -> None:
    path = trace(tmp_path / "trace.jsonl", *rows)
    size = () if "hash_ids" not in str(rows) else ("--trace-block-size", "16")
    result = simulate(path, *size)
    assert (result.code, result.out) == (5, ""), result.err
    assert result.err.startswith("error: ") and told in result.err
    as_json = simulate(path, *size, "--format", "json")
    assert as_json.json["error"]["exit_code"] == 5


@pytest.mark.report("S57")
def test_lenient_skips_and_counts(simulate: Run, tmp_path: Path) -> None:
    path = trace(tmp_path / "trace.jsonl", OK, "not json", OK, "[]", OK)
    result = simulate(path, "--lenient", "--format", "json")
    assert result.code == 0
    assert (result.json["input"]["requests"], result.json["input"]["skipped"]) == (3, 2)
    assert sum(result.json["input"]["skipped_by_reason"].values()) == 2
    assert "1 skipped: " in result.err


@pytest.mark.report("S60")
@pytest.mark.parametrize("name", ODD)
def test_odd_traces_are_read(simulate: Run, tmp_path: Path, name: str) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_bytes(ODD[name])
    result = simulate(path, "--format", "json")
    assert result.code == 0, result.err
    assert all(result.json["invariants"].values())
    if name == "backwards":
        assert "Time runs backwards" in result.err
    if name == "same id":
        assert "used more than once" in result.err
    if name == "mixed models":
        assert result.json["replay"]["hit_tokens"] == 0
        assert set(result.json["misses"]["causes"]) >= {"other_namespace"}


@pytest.mark.report("S59")
def test_ids_that_do_not_fit_the_length(simulate: Run, tmp_path: Path) -> None:
    def row(length: int, count: int) -> Any:
        ids = list(range(count))
        return {"timestamp": 0, "input_length": length, "output_length": 1, "hash_ids": ids}

    for wrong in (row(20, 2), row(1024, 1)):
        path = trace(tmp_path / "trace.jsonl", row(512, 1), wrong)
        result = simulate(path, "--trace-block-size", "512")
        assert result.code == 5 and "trace.jsonl:2" in result.err
        assert "512" in result.err
