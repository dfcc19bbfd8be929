"""The document: complete, consistent in itself, and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from simulation.example_document import EXAMPLES, TRACES, example, simulated, write_blocks

from kvtool.analysis.causes import CAUSES
from kvtool.config import EngineConfig
from kvtool.replay.settings import MODES
from kvtool.simulation.document import document

KEYS = (
    *("input", "unanswered", "hit_rates", "curve", "lru_curve", "capacity_for", "schemes"),
    *("stability", "prefix_tree", "memory", "replay", "misses", "sessions", "explain", "advice"),
    *("applied", "calibration", "engine", "invariants", "invariant_details", "effective"),
    "outputs",
)


@pytest.fixture(scope="module")
def text() -> dict[str, Any]:
    return example("text")


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return example("blocks", tmp_path_factory.mktemp("trace"))


def test_keys_are_the_contract(text: dict[str, Any], blocks: dict[str, Any]) -> None:
    assert tuple(text) == tuple(blocks) == KEYS
    rate = {"value", "numerator", "denominator", "definition", "reported_by"}
    for found in (text, blocks):
        names = {"block_cold", "token_cold", "block_warm", "token_warm", "request_mean"}
        assert set(found["hit_rates"]) == names
        assert all(set(row) == rate for row in found["hit_rates"].values())
        assert set(found["capacity_for"]) == {"0.90", "0.95", "0.99"}
        assert set(found["misses"]["causes"]) == set(CAUSES) == set(found["misses"]["definitions"])
        json.dumps(found, allow_nan=False)


def check(found: dict[str, Any]) -> None:
    """What holds between the parts of any document."""
    assert found["invariants"] and all(found["invariants"].values()), found["invariant_details"]
    replay, misses = found["replay"], found["misses"]
    reused = replay["hit_tokens"] + replay["shifted_tokens"] + replay["recomputed_tokens"]
    assert misses["total_tokens"] == replay["prompt_tokens"] - reused
    assert sum(misses["causes"].values()) == misses["total_tokens"]
    periods, sessions = misses["over_time"], found["sessions"]
    assert sum(period["requests"] for period in periods) == replay["requests"]
    for rows, key in ((periods, "causes"), (sessions, "missed_by_cause")):
        summed = dict.fromkeys(CAUSES, 0)
        for row in rows:
            for name, tokens in row[key].items():
                summed[name] += tokens
        assert summed == misses["causes"]
    assert sum(row["prompt_tokens"] for row in sessions) == replay["prompt_tokens"]
    assert sum(row["computed_tokens"] for row in sessions) == replay["computed_tokens"]
    found_at = [row["block"] for row in found["lru_curve"]]
    assert found_at == sorted(found_at)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("output_kv", [False, True])
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str, mode: str, output_kv: bool) -> None:
    for capacity in ((), (52,)):
        check(
            document(
                simulated(
                    TRACES / f"{name}.jsonl",
                    mode=mode,
                    output_kv=output_kv,
                    capacities=capacity,
                    advice=False,
                )
            )
        )


@pytest.mark.parametrize("reuse", ["none", "shift"])
@pytest.mark.parametrize("index", ["radix", "chain"])
def test_other_engines(reuse: str, index: str) -> None:
    engine = EngineConfig(reuse=reuse, prefix_index=index)
    check(document(simulated(TRACES / "agents.jsonl", engine=engine, advice=False)))


def test_hash_ids(blocks: dict[str, Any], tmp_path: Path) -> None:
    check(blocks)
    source, replay = blocks["input"], blocks["replay"]
    assert (source["format"], source["kind"], source["block_size"]) == ("mooncake", "blocks", 512)
    assert (source["requests"], source["blocks"], source["unique_blocks"]) == (9, 36, 12)
    assert source["prompt_tokens"] == 36 * 512 - 12
    rates = blocks["hit_rates"]
    assert rates["block_cold"]["value"] == 24 / 36
    assert rates["token_cold"]["numerator"] == 24 * 512
    assert [row["capacity_blocks"] for row in blocks["curve"]] == [6, 9]
    assert (replay["capacity_blocks"], replay["capacity_reason"]) == (6, "the first --capacity")
    lru = blocks["curve"][0]["lru"]
    assert replay["block_hit_rate"] == lru["block"] and replay["hit_rate"] == lru["token"]
    assert blocks["invariants"]["replay_is_lru_curve"]
    assert [row["measurable"] for row in blocks["schemes"]] == [True, True, False, False]
    assert "chained hashes" in blocks["schemes"][3]["reason"]
    ample = document(simulated(write_blocks(tmp_path / "t.jsonl"), advice=False))
    assert ample["replay"]["capacity_reason"].startswith("the whole trace fits")
    assert (ample["replay"]["capacity_blocks"], ample["replay"]["evicted_blocks"]) == (12, 0)


def test_shared_prefixes_are_a_tree(blocks: dict[str, Any]) -> None:
    nodes = {node["id"]: node for node in blocks["prefix_tree"]}
    root, *others = blocks["prefix_tree"]
    assert (root["label"], root["requests"], root["tokens"]) == ("id 1", 9, 512)
    assert root["hit_tokens"] == 8 * 512
    seen = {root["id"]}
    for node in others:
        parent = nodes[node["parent"]]
        assert parent["id"] in seen and parent["requests"] >= node["requests"] >= 2
        assert node["depth_tokens"] == parent["depth_tokens"] + parent["tokens"]
        seen.add(node["id"])


def test_a_cache_that_is_too_small_ends_the_replay_only() -> None:
    simulation = simulated(TRACES / "append.jsonl", capacities=(5,))
    found = document(simulation)
    assert simulation.refused is not None and "takes 31 blocks" in simulation.refused.message
    assert found["replay"] is None and found["misses"] is None and found["sessions"] == []
    assert found["curve"][0]["lru"]["token"] > 0
    assert found["unanswered"]["replay"] == simulation.refused.message
    assert all(found["invariants"].values())


def test_text_has_a_name_and_limits_for_its_tokenizer(text: dict[str, Any]) -> None:
    tokenizer = text["input"]["tokenizer"]
    assert "kvtool-pieces" in tokenizer["name"]
    assert tokenizer["limits"] in text["input"]["warnings"]


def test_explains_one_request() -> None:
    found = document(simulated(TRACES / "agents.jsonl", explain="planner-2", advice=False))
    explained = found["explain"]
    assert explained["id"] == "planner-2"
    assert sum(explained["causes"].values()) == (
        explained["prompt_tokens"] - explained["hit_tokens"]
    )


def test_a_trace_is_read_anew_where_it_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = document(simulated(TRACES / "append.jsonl"))
    monkeypatch.setattr("kvtool.simulation.workload.KEPT_SYMBOLS", 100)
    assert document(simulated(TRACES / "append.jsonl")) == kept


def test_needs_no_torch() -> None:
    import subprocess
    import sys

    code = (
        "import sys; sys.modules['torch'] = None; from kvtool.cli.app import run; "
        "sys.exit(run(sys.argv[1:]))"
    )
    args = ["simulate-agent", str(TRACES / "agents.jsonl"), "--format", "json"]
    command = [sys.executable, "-c", code, *args]
    done = subprocess.run(command, capture_output=True, text=True, cwd=TRACES.parent.parent)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["input"]["requests"] == 8
