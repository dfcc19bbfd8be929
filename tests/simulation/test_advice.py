"""Advice in the document of a simulation."""

from pathlib import Path
from typing import Any

import pytest
from advice.chat_traces import EXAMPLES, opened, workload

from kvtool.config import EngineConfig
from kvtool.simulation.document import document
from kvtool.simulation.settings import SimulationSettings
from kvtool.simulation.simulate import simulate


def advice_of(name: str, **options: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    load = opened(EXAMPLES / f"{name}.jsonl")
    found = document(simulate(load, SimulationSettings(**options)))
    return found, found["advice"]


@pytest.mark.parametrize("mode", ["serial", "arrival"])
@pytest.mark.parametrize("reuse", ["none", "prefix", "shift"])
def test_before_is_the_replay(mode: str, reuse: str) -> None:
    """A key that both have means the same."""
    found, advice = advice_of("agents", mode=mode, engine=EngineConfig(reuse=reuse))
    assert advice or reuse == "none"
    for one in advice:
        same = one["before"].keys() & found["replay"].keys()
        assert same > {"hit_tokens", "hit_rate", "shifted_tokens", "computed_tokens"}
        assert {key: one["before"][key] for key in same} == {
            key: found["replay"][key] for key in same
        }
        saved = one["before"]["work_tokens"] - one["after"]["work_tokens"]
        assert one["gain_tokens"] == saved > 0


def test_the_price_of_moved_text_is_told() -> None:
    _, advice = advice_of("upload-first")
    (shift,) = [one for one in advice if one["id"] == "shifted-reuse"]
    before, after = shift["before"], shift["after"]
    assert (before["hit_tokens"], before["shifted_tokens"]) == (36, 0)
    assert after["shifted_tokens"] > 0 and after["recomputed_tokens"] > 0
    assert after["reused_tokens"] == after["hit_tokens"] + after["shifted_tokens"]


@pytest.mark.parametrize("advice", [True, False])
def test_what_is_not_tried_is_not_answered(tmp_path: Path, advice: bool) -> None:
    row = {"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [1]}
    load = workload(tmp_path, [row])
    found = document(simulate(load, SimulationSettings(advice=advice)))
    assert found["advice"] == []
    assert ("rewriting_advice" in found["unanswered"]) == advice


def test_most_gain_first() -> None:
    _, advice = advice_of("agents")
    assert [one["id"] for one in advice][:2] == ["combination", "stable-first"]


def test_none_is_asked_for() -> None:
    assert advice_of("agents", advice=False)[1] == []
