"""Published files that this repository does not have: hash ids and lengths."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from kvtool.traces.open_trace import Trace, open_trace
from kvtool.traces.prepare import prepare, unit_of
from kvtool.traces.trace_request import BlockPrompt
from kvtool.traces.warnings import of_serial_replay

FOLDER = Path(os.environ["KVTOOL_TRACES"])


@pytest.fixture(scope="module")
def conversation() -> Trace:
    return open_trace([FOLDER / "mooncake" / "conversation_trace.jsonl.gz"])


def test_what_the_conversation_trace_holds(conversation: Trace) -> None:
    trace = conversation
    assert (trace.format.name, trace.kind, trace.block_size) == ("mooncake", "blocks", 512)
    assert (len(trace), trace.several_predecessors, trace.timed) == (12_031, 0, True)
    times = [request.arrival_s or 0.0 for request in trace]
    assert (times[0], times[-1], len(set(times))) == (0.0, 3536.999, 1_180)
    together = list(of_serial_replay(trace.survey))
    assert any("10,851 of 12,031 requests arrive while" in warning for warning in together)
    assert not any("backwards" in warning for warning in trace.warnings)


def test_the_blocks_of_the_conversation_trace(conversation: Trace) -> None:
    requests = list(prepare(conversation, None, unit_of(conversation, 16)))
    assert sum(len(request.symbols) for request in requests) == 288_500
    assert sum(request.num_tokens for request in requests) == 144_793_823
    assert max(int(request.symbols.max()) for request in requests) == 182_790 - 1
    assert len(np.unique(np.concatenate([request.symbols for request in requests]))) == 182_790
    assert [request.index for request in requests] == list(range(12_031))


@pytest.mark.parametrize(
    ("name", "requests"),
    [("0022", 7), ("0026", 3), ("0057", 8), ("0174", 6), ("0291", 32), ("0527", 51)],
)
def test_weka_sessions(name: str, requests: int) -> None:
    trace = open_trace([FOLDER / "weka" / f"trace_{name}.json"])
    assert (trace.format.name, trace.block_size, len(trace)) == ("weka", 64, requests)
    for request in trace:
        assert isinstance(request.prompt, BlockPrompt)
        assert len(request.prompt.hash_ids) == request.prompt.num_tokens // 64


def test_subagents_of_a_weka_session_have_their_own_model() -> None:
    trace = open_trace([FOLDER / "weka" / "trace_0291.json"])
    agents = [request for request in trace if request.session != "trace_0291"]
    assert {request.session for request in agents} == {
        "trace_0291/agent_001",
        "trace_0291/agent_002",
    }
    assert {request.model for request in agents} == {"claude-haiku-4-5-20251001"}
    assert min(request.arrival_s or 0 for request in agents) == 1148.013


def test_weka_sessions_together() -> None:
    trace = open_trace([FOLDER / "weka"])
    assert (len(trace), len({request.scope for request in trace})) == (107, 6)
    times = [request.arrival_s or 0.0 for request in trace]
    assert times == sorted(times)
    assert len({request.id for request in trace}) == len(trace)


def test_azure_lengths() -> None:
    trace = open_trace([FOLDER / "azure" / "AzureLLMInferenceTrace_conv.head200.csv"])
    assert (trace.format.name, trace.kind, len(trace)) == ("lengths", "lengths", 199)
