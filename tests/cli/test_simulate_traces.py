"""`kvtool simulate-agent` on traces of every kind: what it finds in them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from cli.trace_files import APPEND, MESSAGES, trace
from command_line import Run
from simulation.example_document import TRACES


def test_standard_input_gz_and_several_files(simulate: Run, tmp_path: Path) -> None:
    text = APPEND.read_bytes()
    plain = simulate(APPEND, "--format", "json").json
    piped = simulate("-", "--format", "json", stdin=text).json
    assert piped["input"]["files"] == ["standard input"]
    packed = tmp_path / "append.jsonl.gz"
    packed.write_bytes(gzip.compress(text))
    unpacked = simulate(packed, "--format", "json").json
    for found in (piped, unpacked):
        assert found["replay"] == plain["replay"]
    both = simulate(APPEND, TRACES / "agents.jsonl", "--format", "json").json
    assert both["input"]["requests"] == 14
    assert any("merged by time" in warning for warning in both["input"]["warnings"])


def test_the_log_itself_calibrates(simulate: Run, tmp_path: Path) -> None:
    def row(time: int, cached: int) -> dict[str, Any]:
        usage = {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": cached}}
        body = [{"role": "user", "content": "the same long words again " * 20}]
        return {"timestamp": time, "messages": body, "response": {"usage": usage}}

    path = trace(tmp_path / "log.jsonl", row(0, 0), row(10, 96), row(5000, 0))
    result = simulate(path, "--format", "json")
    found = result.json["calibration"]
    assert (found["requests"], found["recorded"]["rate"]) == (3, 96 / 300)
    assert found["error_pp"] > 20
    (worst,) = [one for one in found["disagreeing"] if one["idle_s"] and one["idle_s"] > 300]
    assert worst["place"] == "log.jsonl:3" and "expired (TTL)" in worst["likely"]
    best = [one["name"] for one in found["candidates"] if one["best"]]
    assert best == ["ttl:300", "ttl:3600"], "both had forgotten it after 4,990 s"
    assert "Against the log" in simulate(path).out


def test_lengths_answer_questions_of_load(simulate: Run, tmp_path: Path) -> None:
    path = trace(
        tmp_path / "azure.csv",
        "TIMESTAMP,ContextTokens,GeneratedTokens",
        "2023-11-16 18:17:03.97,374,44",
        "2023-11-16 18:17:04.03,396,109",
    )
    result = simulate(path, "--replay", "arrival", "--format", "json")
    found = result.json
    assert found["hit_rates"] is found["misses"] is found["capacity_for"] is None
    assert "lengths only" in found["unanswered"]["hit_rates"]
    assert found["replay"]["prompt_tokens"] == 770 and found["replay"]["hit_tokens"] == 0
    assert found["replay"]["ttft_s"]["mean"] > 0
    assert [one["layout"] for one in found["memory"]["layouts"]] == ["used", "contiguous", "paged"]
    rows = tmp_path / "rows.jsonl"
    human = simulate(path, "--requests", rows)
    assert "whether requests" in human.out and human.code == 0
    assert len(rows.read_text().splitlines()) == 2


@pytest.mark.report("S58")
def test_huge_and_text_ids_stay_distinct(simulate: Run, tmp_path: Path) -> None:
    ids = [1, 2**32 + 1, 2**63, 2**200, "1", "0x1"]
    rows = [{"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [i]} for i in ids]
    found = simulate(
        trace(tmp_path / "t.jsonl", *rows), "--trace-block-size", "512", "--format", "json"
    ).json
    assert found["input"]["unique_blocks"] == len(ids)


@pytest.mark.report("S62")
def test_one_request_and_none(simulate: Run, tmp_path: Path) -> None:
    one = simulate(trace(tmp_path / "one.jsonl", {"messages": MESSAGES}), "--format", "json").json
    assert one["hit_rates"]["token_cold"]["value"] == 0.0
    assert one["capacity_for"] == {"0.90": None, "0.95": None, "0.99": None}
    assert one["hit_rates"]["block_cold"]["value"] is None  # shorter than a block
    human = simulate(tmp_path / "one.jsonl")
    assert human.code == 0 and "n/a" in human.out


@pytest.mark.report("S08")
def test_clock_in_the_system_prompt(kvtool: Run, tmp_path: Path) -> None:
    rules = "Answer briefly and say so when you do not know. " * 30
    rows = [
        {
            "id": f"r{n}",
            "messages": [
                {"role": "system", "content": f"Current time: 10:00:0{n}\n{rules}"},
                {"role": "user", "content": "What is the level of the water?"},
            ],
        }
        for n in (1, 2, 3)
    ]
    path = trace(tmp_path / "clock.jsonl", *rows)
    found = kvtool("simulate-agent", path, "--explain", "r3", "--format", "json").json
    difference = found["explain"]["first_difference"]
    assert (difference["message"], difference["field"]) == (0, "content")
    assert difference["pattern"]
    moved = next(one for one in found["advice"] if "volatile" in one["id"])
    assert moved["gain_tokens"] > 300
    assert moved["after"]["hit_rate"] > 0.5 > 0.1 > moved["before"]["hit_rate"]


@pytest.mark.report("S12")
def test_a_shared_prefix_shorter_than_a_block_is_a_cause(simulate: Run, tmp_path: Path) -> None:
    rows = [
        {"messages": [{"role": "user", "content": "water level " * 20 + who * 100}]}
        for who in ("ann ", "bob ")
    ]
    path = trace(tmp_path / "short.jsonl", *rows)
    options = ("--block-size", "64", "--prefix-index", "chain", "--format", "json")
    found = simulate(path, *options).json
    assert found["replay"]["hit_tokens"] == 0
    assert 30 <= found["misses"]["causes"]["below_block_floor"] < 64
    assert found["effective"]["block_size"] == 64
    assert (
        simulate(path, "--block-size", "16", "--format", "json").json["replay"]["hit_tokens"] > 30
    )


def test_sums_of_the_longest_times_are_finite(simulate: Run, tmp_path: Path) -> None:
    def file(delay_s: float) -> Path:
        rows = [
            {"id": str(i), "messages": MESSAGES, "timestamp": 0}
            | {"kvtool": {"after": [str(i - 1)] * (i > 0), "delay_s": delay_s}}
            for i in range(4)
        ]
        return trace(tmp_path / "late.jsonl", *rows)

    result = simulate(file(1e20), "--replay", "arrival", "--format", "json")
    assert result.code == 0 and result.json["replay"]["duration_s"] >= 3e20, result.err
    result = simulate(file(1e308), "--replay", "arrival")
    assert result.code == 5 and "delay_s must be at most 1e+20: it is 1e+308" in result.err
