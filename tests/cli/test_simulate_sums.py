"""Figures of one `simulate-agent` run add up, wherever they are shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Run
from simulation.example_document import EXAMPLES, TRACES

SOURCES = ("cached", "shifted", "recomputed", "computed")


@pytest.mark.parametrize("reuse", ["prefix", "shift"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_rows_and_sessions_add_up(kvtool: Run, name: str, reuse: str, tmp_path: Path) -> None:
    rows, path = [], tmp_path / "rows.jsonl"
    options = ("--no-advice", "--reuse", reuse, "--requests", path, "--format", "json")
    found = kvtool("simulate-agent", TRACES / f"{name}.jsonl", *options).json
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        assert sum(row[f"{source}_tokens"] for source in SOURCES) == row["prompt_tokens"]
    for source in SOURCES:
        total = sum(row[f"{source}_tokens"] for row in rows)
        assert total == found["replay"][f"{source}_tokens"]
    for key in ("computed_tokens", "recomputed_tokens", "prompt_tokens"):
        assert sum(one[key] for one in found["sessions"]) == found["replay"][key]
    for one in found["sessions"]:
        parts = one["hit_tokens"] + one["recomputed_tokens"] + sum(one["missed_by_cause"].values())
        assert parts == one["prompt_tokens"]


def test_what_is_found_and_computed_all_the_same_is_told(kvtool: Run, tmp_path: Path) -> None:
    path = tmp_path / "twice.jsonl"
    row = {"model": "m", "messages": [{"role": "user", "content": "the very same text " * 9}]}
    path.write_text(f"{json.dumps(row)}\n" * 3)
    told = kvtool("simulate-agent", "--no-advice", path).out
    assert "2 of the computed tokens were found: the last one of a prompt" in told
    other = kvtool("simulate-agent", "--no-advice", TRACES / "agents.jsonl").out
    assert "of the computed tokens were found" not in other


def test_moved_text_is_in_all_tables(kvtool: Run) -> None:
    options = ("--no-advice", "--reuse", "shift", "--explain", "planner-2")
    told = kvtool("simulate-agent", TRACES / "agents.jsonl", *options).out
    assert "358 of 507 tokens found (70.6 %): 9 in front, 349 at another position" in told
    assert "of the moved text, 349 tokens are taken as they are and 128 are computed again" in told
    assert "computed  moved, again  hit rate" in told
    plain = kvtool("simulate-agent", "--no-advice", TRACES / "agents.jsonl").out
    assert "moved, again" not in plain


@pytest.mark.parametrize("output_kv", ["--output-kv", "--no-output-kv"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_size_that_is_hinted_is_enough(kvtool: Run, name: str, output_kv: str) -> None:
    """The first request that does not fit is not the largest."""
    command = ("simulate-agent", "--no-advice", TRACES / f"{name}.jsonl", output_kv, "--capacity")
    refused = kvtool(*command, "5")
    size = int(refused.err.split("--capacity ")[1].split()[0])
    assert refused.code == 4
    assert kvtool(*command, str(size)).code == 0
    assert kvtool(*command, str(size - 1)).code == 4


def test_lengths_hit_nothing_that_is_known(kvtool: Run, tmp_path: Path) -> None:
    path = tmp_path / "azure.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,374,44\n")
    told = kvtool("simulate-agent", path).out
    assert "from the cache  not known: lengths have no identity" in told
    assert "0.0 %" not in told and "1 invariants" not in told
    replay = kvtool("simulate-agent", path, "--format", "json").json["replay"]
    assert replay["hit_rate"] is replay["block_hit_rate"] is None
