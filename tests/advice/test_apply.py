"""`--apply`: the rewritten trace reads back, and gives exactly what was promised."""

import json
from pathlib import Path

import pytest
from advice.chat_traces import (
    EXAMPLES,
    PLENTY,
    advised,
    assistant,
    chat,
    opened,
    served,
    system,
    user,
    workload,
)

from kvtool.advice.advice import Figures
from kvtool.advice.apply import chosen, write_rewritten
from kvtool.advice.chat_record import chat_record
from kvtool.errors import InputError
from kvtool.simulation.settings import SimulationSettings
from kvtool.traces.open_trace import open_trace


@pytest.mark.parametrize("name", ["agents", "upload-first", "truncation"])
@pytest.mark.parametrize("mode", ["serial", "arrival"])
@pytest.mark.parametrize("num_blocks", [PLENTY, 150])
def test_the_promise_is_kept(name: str, mode: str, num_blocks: int, tmp_path: Path) -> None:
    load, settings = opened(EXAMPLES / f"{name}.jsonl"), SimulationSettings(mode=mode)
    found = list(advised(load, settings, num_blocks).values())
    applied = write_rewritten(load, found, tmp_path / "out.jsonl")
    ids, _ = chosen(found)
    promised = next(
        advice for advice in found if (advice.parts or (advice.id,)) == ids and advice.rewrite
    )
    assert applied["advice"] == list(ids)
    again = served(opened(tmp_path / "out.jsonl"), settings, num_blocks)
    assert Figures.of(again) == promised.after


def test_single_kinds_can_be_chosen(tmp_path: Path) -> None:
    load = opened(EXAMPLES / "agents.jsonl")
    for name in ("volatile-fields", "stable-first"):
        advice = advised(load)[name]
        write_rewritten(load, [advice], tmp_path / "out.jsonl")
        assert Figures.of(served(opened(tmp_path / "out.jsonl"))) == advice.after


def test_what_is_reported(tmp_path: Path) -> None:
    load = opened(EXAMPLES / "truncation.jsonl")
    applied = write_rewritten(load, list(advised(load).values()), tmp_path / "out.jsonl")
    assert applied["requests"] == 4
    assert applied["changed_requests"] == applied["diff_requests"] == 1
    assert applied["diff"].startswith("--- wednesday as recorded\n+++ wednesday rewritten")
    assert not [line for line in applied["diff"].splitlines()[2:] if line.startswith("-")]


def test_without_advice_the_trace_stays(tmp_path: Path) -> None:
    load = opened(EXAMPLES / "append.jsonl")
    applied = write_rewritten(load, [], tmp_path / "out.jsonl")
    assert (applied["changed_requests"], applied["advice"], applied["diff"]) == (0, [], "")
    again = opened(tmp_path / "out.jsonl")
    assert [r.prompt for r in again.trace] == [r.prompt for r in load.trace]


def test_a_record_reads_back(tmp_path: Path) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"b":1}'}}
    requests = [
        chat(
            0,
            system("S"),
            user("U"),
            tools=[{"type": "function", "function": {"name": "f"}}],
            session="s",
            arrival_s=0.0,
            model="m",
            adapter="a",
            salt="x",
            priority=-3,
            output_tokens=7,
            reply=assistant("R", tool_calls=[call], reasoning_content="T"),
        ),
        chat(
            1,
            user("U"),
            assistant("", tool_calls=[call]),
            {"role": "tool", "content": "4", "tool_call_id": "c", "name": "f"},
            arrival_s=1.5,
            after=("r0",),
            delay_s=0.25,
        ),
    ]
    path = tmp_path / "out.jsonl"
    path.write_text("".join(json.dumps(chat_record(request)) + "\n" for request in requests))
    again = list(open_trace([path]))
    fields = ("id", "prompt", "session", "arrival_s", "model", "adapter", "salt", "priority")
    for name in (*fields, "after", "delay_s", "output_tokens", "reply"):
        assert [getattr(r, name) for r in again] == [getattr(r, name) for r in requests], name


def test_hash_ids_have_no_text(tmp_path: Path) -> None:
    row = {"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [1]}
    with pytest.raises(InputError, match="no text to rewrite"):
        write_rewritten(workload(tmp_path, [row]), [], tmp_path / "out.jsonl")
