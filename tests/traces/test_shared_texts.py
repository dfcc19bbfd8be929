"""Real logs, where `KVTOOL_TRACES` names the folder that has them."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest

from kvtool.traces.fallback_tokenizer import FallbackTokenizer
from kvtool.traces.open_trace import Trace, open_trace
from kvtool.traces.plain_rendering import PlainRendering
from kvtool.traces.prepared import PreparedRequest
from kvtool.traces.render import Renderer
from kvtool.traces.trace_request import ChatPrompt

FOLDER = Path(os.environ["KVTOOL_TRACES"])
CLAUDE, CODEX = FOLDER / "tracelab/claude/trace.jsonl", FOLDER / "tracelab/codex/trace.jsonl"


def prepared(trace: Trace) -> list[PreparedRequest]:
    renderer = Renderer(PlainRendering(FallbackTokenizer()))
    return [renderer.render(index, request) for index, request in trace.indexed()]


def shared_with_before(requests: list[PreparedRequest]) -> list[float]:
    """Of each prompt but the last: how much of it the next one begins with."""
    shares = []
    for one, other in pairwise(requests):
        length = min(len(one.symbols), len(other.symbols))
        same = one.symbols[:length] == other.symbols[:length]
        shares.append((length if same.all() else int(same.argmin())) / len(one.symbols))
    return shares


def test_claude_code() -> None:
    trace = open_trace([CLAUDE])
    requests = list(trace)
    assert trace.format.name == "claude-code" and len(requests) == 10
    assert [r.recorded.prompt_tokens for r in requests][:3] == [32272, 35740, 38592]
    assert [r.recorded.cached_tokens for r in requests][:3] == [27217, 29380, 35738]
    second = requests[1].prompt
    assert isinstance(second, ChatPrompt)
    assert [m["role"] for m in second.messages] == ["user", "assistant", "tool", "tool"]
    assert all(r.after == (before.id,) for before, r in pairwise(requests))
    assert min(shared_with_before(prepared(trace))) == 1.0


def test_codex() -> None:
    trace = open_trace([CODEX])
    requests = list(trace)
    assert trace.format.name == "codex" and len(requests) == 9
    assert [r.recorded.prompt_tokens for r in requests] == [
        *(9324, 9917, 10058, 10152, 10472),
        *(10436, 11636, 11727, 12097),
    ]
    assert min(shared_with_before(prepared(trace))) == 1.0


@pytest.mark.parametrize(
    ("part", "expected"), [("magagent", 21), ("miniswe", 12), ("taubench", 54)]
)
def test_lmcache(part: str, expected: int) -> None:
    trace = open_trace([FOLDER / "lmcache" / part])
    assert trace.format.name == "lmcache" and len(trace) == expected
    assert len({request.session for request in trace}) == 2
    assert any("backwards" in warning for warning in trace.warnings)
    if part == "miniswe":
        shares = shared_with_before(prepared(trace))
        assert sum(share == 1.0 for share in shares) == len(shares) - 1  # a second session begins


def test_swe_agent() -> None:
    trace = open_trace([FOLDER / "swe-agent"])
    assert trace.format.name == "swe-agent"
    assert len({request.session for request in trace}) == 3
    assert len(trace) == 13
    calls = [
        message["tool_calls"]
        for request in trace
        if isinstance(request.prompt, ChatPrompt)
        for message in request.prompt.messages
        if message.get("tool_calls")
    ]
    assert calls


def test_tau_bench() -> None:
    trace = open_trace([FOLDER / "tau-bench/gpt-4o-airline.first10.json"])
    requests = prepared(trace)
    assert trace.format.name == "tau-bench" and len(requests) == 141
    assert len({request.request.session for request in requests}) == 10
    shares = shared_with_before(requests)
    assert sum(share == 1.0 for share in shares) == 131
