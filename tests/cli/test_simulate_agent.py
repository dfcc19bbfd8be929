"""`kvtool simulate-agent` without a model: options, output, files, and what is wrong with a trace."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import shlex
import struct
import termios
import time
from pathlib import Path
from typing import IO, Any

import pytest
from command_line import Result, Run
from processes import ROOT, interrupt, running, wait_until
from processes import kvtool as command
from simulation.example_document import TRACES, write_blocks
from simulation.test_document import KEYS

from kvtool.analysis.policies.policy import POLICIES
from kvtool.analysis.scheme import SCHEMES
from kvtool.cli import simulate_options
from kvtool.cli.simulate_agent import EXAMPLES
from kvtool.cli.simulate_engine import DEFAULTS
from kvtool.cli.simulate_options import SimulateRequest
from kvtool.replay.cost import CostModel
from kvtool.replay.model import REPLIES
from kvtool.replay.settings import MODES
from kvtool.report.exports.export import EXPORTS
from kvtool.simulation import settings as simulation_settings

APPEND = TRACES / "append.jsonl"
MESSAGES = [{"role": "user", "content": "hello"}]


@pytest.fixture
def simulate(kvtool: Run) -> Run:
    def run(*args: str | Path, stdin: bytes = b"") -> Result:
        return kvtool("simulate-agent", "--no-advice", *args, stdin=stdin)

    return run


@pytest.fixture
def blocks(tmp_path: Path) -> Path:
    return write_blocks(tmp_path / "blocks.jsonl")


def trace(path: Path, *rows: Any) -> Path:
    """Rows as JSON; text as it is."""
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_choices_are_those_of_the_packages() -> None:
    assert (simulate_options.MODES, simulate_options.REPLIES) == (MODES, REPLIES)
    assert simulate_options.POLICIES == simulation_settings.POLICIES
    assert simulate_options.SCHEMES == simulation_settings.SCHEMES == tuple(SCHEMES)
    told = {name: p.show_default for name, p in _metadata().items()}
    assert float(told["prefill_rate"]) == CostModel().prefill_rate
    assert float(told["decode_rate"]) == CostModel().decode_rate
    for name in POLICIES:
        assert name in _metadata()["policies"].help


def _metadata() -> dict[str, Any]:
    return {p.name: p.annotation.__metadata__[0] for p in simulate_options.REQUEST.parameters}


@pytest.mark.parametrize("example", [line for line in EXAMPLES if "demo" not in line])
def test_examples_of_the_help(
    kvtool: Run, example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    result = kvtool(*shlex.split(example)[1:])
    assert result.code == 0, result.err
    assert result.out.strip()


def test_json_is_one_document(simulate: Run) -> None:
    result = simulate(APPEND, "--format", "json")
    assert result.code == 0, result.err
    assert tuple(result.json) == KEYS
    assert len(result.out.splitlines()) == 1
    assert all(line.startswith("warning: ") for line in result.err.splitlines())
    assert all(result.json["invariants"].values())


def test_summary_tells_everything(simulate: Run) -> None:
    result = simulate(TRACES / "agents.jsonl", "--capacity", "40,264")
    assert result.code == 0, result.err
    assert "\x1b" not in result.out + result.err
    for told in (
        "agents.jsonl: 8 requests, 4,013 prompt tokens",
        "read as OpenAI chat requests",
        "token_cold",
        "kvtool, vLLM",
        "40 blocks (the first --capacity)",
        "Why 3,9",
        "belady",
        "shift-any",
        "paged+shared",
        "planner",
        "calibration: the trace records no cached tokens",
        "invariants, 0 broken",
        "evict=lru",
    ):
        assert told in result.out, told
    assert max(map(len, result.out.splitlines())) <= 118


def test_policies_and_schemes_are_those_asked_for(simulate: Run, blocks: Path) -> None:
    asked = ("--policies", "lru,ttl:2,slru", "--schemes", "radix", "--capacity", "6")
    found = simulate(blocks, "--trace-block-size", "512", *asked, "--format", "json").json
    (row,) = found["curve"]
    assert list(row) == [
        *("capacity_blocks", "capacity_tokens", "capacity_bytes", "lru", "ttl:2", "slru")
    ]
    assert row["ttl:2"]["block"] < row["lru"]["block"]
    assert [one["scheme"] for one in found["schemes"]] == ["radix"]
    assert found["effective"]["policies"] == ["lru", "ttl:2", "slru"]


def test_capacities_in_bytes(simulate: Run, blocks: Path) -> None:
    sizes = ("--capacity", "4000KiB,9", "--kv-bytes-per-token", "1KiB")
    found = simulate(blocks, "--trace-block-size", "512", *sizes, "--format", "json").json
    assert [row["capacity_blocks"] for row in found["curve"]] == [7, 9]
    assert found["curve"][1]["capacity_bytes"] == 9 * 512 * 1024
    assert found["replay"]["capacity_blocks"] == 7
    unknown = simulate(blocks, "--trace-block-size", "512", "--capacity", "1GiB")
    assert unknown.code == 2 and "needs the bytes of a token" in unknown.err


def test_engine_options_reach_the_engine(simulate: Run) -> None:
    options = ("--block-size", "32", "--evict", "lfu", "--prefix-index", "chain")
    found = simulate(APPEND, *options, "--kv-blocks", "40", "--format", "json").json
    effective = found["effective"]
    assert [effective[name] for name in ("block_size", "evict", "prefix_index", "kv_blocks")] == [
        *(32, "lfu", "chain", 40)
    ]
    assert found["replay"]["hit_tokens"] % 32 == 0
    assert effective["device"] is effective["donor"] is effective["model"] is None


def test_repair_and_min_run_are_of_the_schemes_too(simulate: Run) -> None:
    agents = TRACES / "agents.jsonl"
    usual = simulate(agents, "--format", "json").json["schemes"][3]
    free = simulate(agents, "--repair", "none", "--format", "json").json["schemes"][3]
    long = simulate(agents, "--min-run", "100000", "--format", "json").json["schemes"][3]
    assert usual["scheme"] == "shift-any"
    assert free["net_tokens"] > usual["net_tokens"] > long["net_tokens"]


def test_moved_text_in_the_engine(simulate: Run) -> None:
    found = simulate(TRACES / "agents.jsonl", "--reuse", "shift", "--format", "json").json
    replay = found["replay"]
    assert replay["shifted_tokens"] > 0 and replay["recomputed_tokens"] > 0
    assert found["effective"]["donor"] == "similar"
    assert all(found["invariants"].values())


def test_virtual_clock(simulate: Run) -> None:
    arguments = (APPEND, "--replay", "arrival", "--format", "json")
    slow = simulate(*arguments, "--prefill-rate", "10", "--decode-rate", "1").json["replay"]
    fast = simulate(*arguments).json["replay"]
    assert slow["ttft_s"]["p50"] > 100 * fast["ttft_s"]["p50"]
    assert slow["cost"] == {"prefill_rate": 10.0, "decode_rate": 1.0, "attention": 0.0}


def test_requests_by_line(simulate: Run, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    found = simulate(APPEND, "--requests", out, "--format", "json").json
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["id"] for row in rows] == [f"turn-{n}" for n in range(1, 7)]
    assert all(sum(row["causes"].values()) == row["missed_tokens"] for row in rows)
    assert sum(row["missed_tokens"] for row in rows) == found["misses"]["total_tokens"]
    assert rows[0]["place"] == "append.jsonl:1"
    assert found["outputs"] == {"requests": {"path": str(out), "requests": 6}}
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]
    assert out.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


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


def test_a_cache_that_is_too_small_is_told_behind_the_analysis(simulate: Run) -> None:
    result = simulate(APPEND, "--capacity", "5", "--format", "json")
    assert result.code == 4
    assert result.json["curve"][0]["capacity_blocks"] == 5
    assert "takes 31 blocks" in result.err and "--capacity 44" in result.err


OK, BAD = {"messages": MESSAGES}, '{"messages": '


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
    one = simulate(trace(tmp_path / "one.jsonl", OK), "--format", "json").json
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


def named(*args: str) -> list[str]:
    return list(args)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (named(), "There is no TRACE"),
        (named("-", "-"), "twice"),
        (named("t", "--capacity", "0"), "1 to"),
        (named("t", "--capacity", "5,,6"), "empty item"),
        (named("t", "--capacity", "x"), "'x' is not a size"),
        (named("t", "--policies", "lruu"), "Did you mean 'lru'"),
        (named("t", "--policies", "ttl"), "ttl:300"),
        (named("t", "--schemes", "shift"), "shift-grid"),
        (named("t", "--input-format", "openia"), "Did you mean 'openai'"),
        (named("t", "--replay", "time"), "serial, arrival"),
        (named("t", "--prefill-rate", "0"), "0.001 to 1e12"),
        (named("t", "--decode-rate", "1e-320"), "0.001 to 1e12"),
        (named("t", "--reuse", "shift", "--ungated"), "--ungated: nothing is computed"),
        (named("t", "--replies", "generate"), "--replies generate"),
        (named("t", "--verify"), "nothing is computed without --model"),
        (named("t", "--calibrate"), "nothing is computed without --model"),
        (named("t", "--device", "cpu"), "--device"),
        (named("t", "--dtype", "bf16", "--seed", "3"), "--dtype, --seed"),
        (named("t", "--cache-dir", "x"), "--cache-dir"),
        (named("t", "--events", "x"), "--events"),
        (named("t", "--donor", "recent"), "--donor would do nothing"),
        (named("t", "--model", "m", "--tokenizer", "m"), "drop --tokenizer"),
        (named("t", "--model", "m", "--decode-rate", "5"), "times are measured"),
        (named("t", "--model", "m", "--no-output-kv"), "Drop --no-output-kv, or --model"),
        (named("t", "--model", "m", "--calibrate", "--verify"), "drop --verify"),
        (named("t", "--no-advice", "--apply", "x"), "drop --no-advice"),
        (named("t", "--requests", "-"), "stdout carries the report"),
        (named("t", "--requests", "t"), "would replace the trace t"),
        (named("t", "--requests", "x", "--report", "x"), "would replace the file of --requests"),
        (
            named("t", "--export", "weka:x", "--export", "weka:x"),
            "would replace the file of --export weka",
        ),
        (
            named("t", "--export", "weka:t", "--export", "weka:x"),
            "would replace the trace t",
        ),
        (named("t", "--requests", "/nowhere/x"), "No such file or directory"),
        (named("t", "--export", "csv:x"), "allowed: "),
        (named("t", "--export", "weka"), "allowed: weka:OUT"),
        (named("t", "--export", "weka:"), "allowed: weka:OUT"),
    ],
)
def test_usage_errors(kvtool: Run, args: list[str], told: str) -> None:
    result = kvtool("simulate-agent", *args)
    assert (result.code, result.out) == (2, ""), result.err
    assert result.err.startswith("error: ") and told in result.err


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--block-size", "32"), "it is replayed in its own blocks"),
        (("--reuse", "shift"), "shift moves text"),
        (("--tokenizer", "demo"), "nothing to tokenise"),
        (("--model", "demo"), "a model computes text"),
        (("--export", "openai:x"), "no messages to write"),
    ],
)
def test_what_hash_ids_cannot_have(simulate: Run, blocks: Path, args: Any, told: str) -> None:
    result = simulate(blocks, "--trace-block-size", "512", *args)
    assert (result.code, result.out) == (2, "")
    assert told in result.err


@pytest.mark.parametrize("name", EXPORTS)
def test_what_cannot_be_exported_is_told_before_the_work(
    simulate: Run, tmp_path: Path, name: str
) -> None:
    rows = ({"timestamp": i, "input_length": 9, "output_length": 1} for i in range(3))
    out = tmp_path / "out"
    result = simulate(trace(tmp_path / "lengths.jsonl", *rows), "--export", f"{name}:{out}")
    assert (result.code, result.out) == (2, "") and "of lengths" in result.err
    untimed = trace(tmp_path / "untimed.jsonl", {"messages": MESSAGES})
    result = simulate(untimed, "--export", f"{name}:{out}")
    assert result.code == (2 if name == "weka" else 0)
    assert out.exists() is (name != "weka")


def test_a_file_in_the_folder_of_a_trace_is_not_replaced(simulate: Run, tmp_path: Path) -> None:
    row = trace(tmp_path / "a.jsonl", {"messages": MESSAGES})
    link = tmp_path.parent / f"{tmp_path.name}-link.jsonl"
    link.symlink_to(row)
    before = row.read_text()
    for out in (row, link):
        result = simulate(tmp_path, "--requests", out)
        assert result.code == 2 and f"would replace the trace {row}" in result.err
    assert row.read_text() == before


def test_a_file_is_not_stdout_itself() -> None:
    args = ("simulate-agent", APPEND, "--no-advice", "--requests", "/dev/stdout")
    with running(command(*args)) as process:
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, b"") and b"where stdout goes" in err


def test_a_cache_larger_than_any_machine(simulate: Run) -> None:
    result = simulate(APPEND, "--capacity", 2**30, "--format", "json")
    assert result.code == 0, result.err
    found = result.json
    assert [row["capacity_blocks"] for row in found["curve"]] == [2**30]
    ample = simulate(APPEND, "--format", "json").json
    assert found["misses"]["causes"] == ample["misses"]["causes"]
    assert "1,073,741,824" in found["replay"]["capacity_reason"]


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


def test_text_has_no_blocks_of_its_own(simulate: Run) -> None:
    result = simulate(APPEND, "--trace-block-size", "512")
    assert result.code == 2 and "this trace has text" in result.err


def test_files_stay_as_they_were_where_a_run_fails(simulate: Run, tmp_path: Path) -> None:
    rows = trace(tmp_path / "rows.jsonl", "precious")
    result = simulate(APPEND, "--requests", rows, "--policies", "ttl:5", "--explain", "nobody")
    assert result.code == 5 and "nobody" in result.err
    assert rows.read_text() == "precious\n"
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


def test_all_files_of_a_run(kvtool: Run, tmp_path: Path) -> None:
    paths = {name: tmp_path / name for name in ("timeline", "apply", "mooncake", "openai")}
    agents = TRACES / "agents.jsonl"
    files = ("--timeline", paths["timeline"], "--apply", paths["apply"])
    exports = [f"--export={name}:{paths[name]}" for name in ("mooncake", "openai")]
    result = kvtool("simulate-agent", agents, *files, *exports, "--format", "json")
    assert result.code == 0, result.err
    found = result.json
    written = found["outputs"]
    assert set(written) == {"timeline", "apply", "export"}
    assert [row["requests"] for row in written["export"]] == [8, 8]
    events = json.loads(paths["timeline"].read_text())["traceEvents"]
    assert len(events) == written["timeline"]["events"] > 8
    assert found["applied"]["path"] == str(paths["apply"]) and found["applied"]["changed_requests"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(paths)
    again = kvtool("simulate-agent", paths["apply"], "--no-advice", "--format", "json").json
    best = max(one["after"]["hit_rate"] for one in found["advice"] if one["command"])
    assert again["replay"]["hit_rate"] == pytest.approx(best)
    back = kvtool("simulate-agent", paths["openai"], "--no-advice", "--format", "json").json
    assert back["hit_rates"] == found["hit_rates"] and back["misses"] == {
        **found["misses"],
        "top_requests": back["misses"]["top_requests"],
    }


def test_report_page_gets_the_document(
    simulate: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = []
    monkeypatch.setattr("kvtool.report.extra.check_report_extra", lambda: None)
    monkeypatch.setattr(
        "kvtool.report.html.write_report",
        lambda document, path: (pages.append(document), path.write_text("page")),
    )
    out = tmp_path / "out.html"
    found = simulate(APPEND, "--report", out, "--format", "json").json
    assert out.read_text() == "page"
    assert pages == [found]
    assert found["outputs"]["report"] == {"path": str(out)}


@pytest.mark.report("S76")
def test_ctrl_c(tmp_path: Path) -> None:
    """While it reads a pipe that never ends."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    arguments = command("simulate-agent", pipe, "--requests", tmp_path / "rows")
    with running(arguments) as process, pipe.open("wb") as writer:
        writer.write(APPEND.read_bytes())
        writer.flush()
        waits = Path(f"/proc/{process.pid}/stat")
        wait_until(lambda: _unread(writer) == 0)
        wait_until(lambda: waits.read_text().rpartition(")")[2].split()[0] == "S")
        time.sleep(0.2)  # in the middle of a call that reads, Python hears no signal
        out, _ = interrupt(process)
    assert out == b""
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def _unread(pipe: IO[bytes]) -> int:
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0]


def test_defaults_are_those_of_the_engine() -> None:
    assert SimulateRequest().replay == MODES[0]
    assert DEFAULTS["block_size"] == 16
