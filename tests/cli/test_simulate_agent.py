"""`kvtool simulate-agent` without a model: its options, and what it tells."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from cli.trace_files import APPEND
from command_line import Run
from processes import ROOT
from simulation.example_document import TRACES
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
from kvtool.simulation import settings as simulation_settings


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


def test_defaults_are_those_of_the_engine() -> None:
    assert SimulateRequest().replay == MODES[0]
    assert DEFAULTS["block_size"] == 16


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


def test_a_cache_larger_than_any_machine(simulate: Run) -> None:
    result = simulate(APPEND, "--capacity", 2**30, "--format", "json")
    assert result.code == 0, result.err
    found = result.json
    assert [row["capacity_blocks"] for row in found["curve"]] == [2**30]
    ample = simulate(APPEND, "--format", "json").json
    assert found["misses"]["causes"] == ample["misses"]["causes"]
    assert "1,073,741,824" in found["replay"]["capacity_reason"]


def test_a_cache_that_is_too_small_is_told_behind_the_analysis(simulate: Run) -> None:
    result = simulate(APPEND, "--capacity", "5", "--format", "json")
    assert result.code == 4
    assert result.json["curve"][0]["capacity_blocks"] == 5
    assert "takes 31 blocks" in result.err and "--capacity 44" in result.err


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
