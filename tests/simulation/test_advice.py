"""Advice in the document of a simulation."""

from typing import Any

import pytest
from advice.chat_traces import EXAMPLES, opened

from kvtool.simulation.document import document
from kvtool.simulation.settings import SimulationSettings
from kvtool.simulation.simulate import simulate


def advice_of(name: str, **options: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    load = opened(EXAMPLES / f"{name}.jsonl")
    found = document(simulate(load, SimulationSettings(**options)))
    return found, found["advice"]


@pytest.mark.parametrize("mode", ["serial", "arrival"])
def test_before_is_the_replay(mode: str) -> None:
    found, advice = advice_of("agents", mode=mode)
    assert advice
    for one in advice:
        assert one["before"]["prompt_tokens"] == found["replay"]["prompt_tokens"]
        assert one["before"]["hit_rate"] == found["replay"]["hit_rate"]
        saved = one["before"]["computed_tokens"] - one["after"]["computed_tokens"]
        assert one["gain_tokens"] == saved > 0
        assert one["replayed"]


def test_most_gain_first() -> None:
    _, advice = advice_of("agents")
    assert [one["id"] for one in advice][:2] == ["combination", "stable-first"]


def test_none_is_asked_for() -> None:
    assert advice_of("agents", advice=False)[1] == []
