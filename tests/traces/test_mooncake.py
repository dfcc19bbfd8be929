"""Mooncake rows, with what Dynamo, AIPerf and kvcache-simulator write into them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traces.files import blocks, opened, refused, write_rows

from kvtool.traces.open_trace import open_trace
from kvtool.traces.trace_request import BlockPrompt, ChatPrompt, LengthPrompt, Place, TextPrompt

hash_ids = st.integers(-(2**70), 2**70) | st.text("0123456789abcdef", min_size=1)


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    ids = draw(st.lists(hash_ids, min_size=1, max_size=5))
    return {
        "timestamp": draw(st.integers(0, 10**6) | st.floats(0, 1e6)),
        "input_length": 512 * (len(ids) - 1) + draw(st.integers(1, 512)),
        "output_length": draw(st.integers(0, 2000)),
        "hash_ids": ids,
        **draw(
            st.fixed_dictionaries(
                {}, optional={"priority": st.integers(-5, 5), "model": st.sampled_from("mn")}
            )
        ),
    }


@settings(max_examples=100)
@given(st.lists(rows(), min_size=1, max_size=6))
def test_rows_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, written: list[dict[str, Any]]
) -> None:
    path = write_rows(tmp_path_factory.mktemp("mooncake") / "t.jsonl", written)
    trace = open_trace([path], trace_block_size=512)
    origin = min(row["timestamp"] / 1e3 for row in written)
    read = sorted(trace, key=lambda request: request.place.line)
    for line, (row, request) in enumerate(zip(written, read, strict=True), start=1):
        assert request.prompt == BlockPrompt(tuple(row["hash_ids"]), row["input_length"])
        assert request.arrival_s == row["timestamp"] / 1e3 - origin
        assert request.output_tokens == row["output_length"]
        assert request.priority == row.get("priority", 0)
        assert request.model == row.get("model")
        assert (request.id, request.place) == (str(line), Place("t.jsonl", line))


def test_aliases_and_details_of_dynamo(tmp_path: Path) -> None:
    row = {
        "created_time": 1500.5,
        "input_tokens": 600,
        "output_tokens": 7,
        "hash_ids": ["ab", 2**64],
        "request_id": "r",
        "priority": 3,
        "strict_priority": 1,
        "policy_class": "gold",
        "routing_constraints": {"zone": 1},
        "output_token_ids": [1, 2],
    }
    first = {**row, "request_id": "q", "created_time": 0}
    _, request = opened(tmp_path, first, row, trace_block_size=512)
    assert request.prompt == BlockPrompt(("ab", 2**64), 600)
    assert (request.id, request.arrival_s, request.output_tokens) == ("r", 1.5005, 7)
    assert (request.priority, request.details["policy_class"]) == (3, "gold")


def test_rows_of_a_session_are_turns(tmp_path: Path) -> None:
    rows = [
        blocks(1, session_id="s", timestamp=10),
        blocks(9, session_id="t", timestamp=20),
        blocks(1, 2, session_id="s", timestamp=None, delay=250),
        blocks(9, 8, session_id="t", delay_ms=1000),
        blocks(9, 8, 7, session_id="t", timestamp=90),
    ]
    trace = opened(tmp_path, *rows, trace_block_size=512)
    assert [(r.after, r.delay_s, r.arrival_s) for r in trace] == [
        ((), 0.0, 0.0),
        ((), 0.0, 0.01),
        (("1",), 0.25, None),
        (("2",), 1.0, None),
        (("4",), 0.0, 0.08),
    ]
    assert [r.session for r in trace] == ["s", "t", "s", "t", "t"]


def test_rows_with_text(tmp_path: Path) -> None:
    hi = {"role": "user", "content": None}
    tools = [{"type": "function", "function": {"name": "f"}}]
    rows = [
        {"timestamp": 1000, "text_input": "hi", "output_length": 1},
        {"timestamp": 2000, "messages": [hi], "tools": tools, "output_length": 1},
        {"timestamp": 4000, "payload": {"messages": [hi], "model": "m"}, "output_length": 1},
    ]
    trace = opened(tmp_path, *rows)
    text, chat, payload = (request.prompt for request in trace)
    assert text == TextPrompt("hi")
    assert isinstance(chat, ChatPrompt)
    assert chat.messages[0]["content"] == ""
    assert len(chat.tools) == 1
    assert isinstance(payload, ChatPrompt)
    assert [r.arrival_s for r in trace] == [0, 1, 3]
    assert (trace.kind, trace.block_size, trace.several_predecessors) == ("text", None, None)


def test_turns_with_text_are_whole_prompts(tmp_path: Path) -> None:
    rows = [{"text_input": t, "output_length": 1, "session_id": "s", "delay": 5} for t in "ab"]
    trace = opened(tmp_path, *rows)
    assert [r.prompt for r in trace] == [TextPrompt("a"), TextPrompt("b")]
    assert any("taken as whole prompts" in warning for warning in trace.warnings)


def test_rows_of_lengths(tmp_path: Path) -> None:
    trace = opened(tmp_path, {"timestamp": 0, "input_length": 9, "output_length": 2})
    assert next(iter(trace)).prompt == LengthPrompt(9)
    assert trace.kind == "lengths"
    assert any("lengths only" in warning for warning in trace.warnings)


def test_block_sizes_in_the_rows(tmp_path: Path) -> None:
    rows = [
        blocks(1, 2, 3, tokens=40, block_size=16),
        blocks(1, 2, tokens=20, block_tokens=[16, 4]),
        blocks(1, tokens=5, block_tokens=[5]),
    ]
    trace = opened(tmp_path, *rows)
    assert trace.block_size == 16
    assert not any("block size" in warning for warning in trace.warnings)
    assert "another block size than before: 32, it was 16" in refused(
        tmp_path, *rows, blocks(1, tokens=20, block_size=32)
    )
    assert "another block size" in refused(tmp_path, *rows, trace_block_size=64)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"hash_ids": "abc"}, "hash_ids must be a list: it is 'abc'"),
        ({"hash_ids": [1.0]}, "hash_ids must be whole numbers or text: one is 1.0"),
        ({"hash_ids": [True]}, "hash_ids must be whole numbers or text: one is True"),
        ({"hash_ids": [None]}, "hash_ids must be whole numbers or text: one is null"),
        ({"hash_ids": []}, "does not fit the number of tokens"),
        ({"input_length": 0}, "input_length must be a whole number from 1: it is 0"),
        ({"input_length": 2**31}, "input_length must be at most 2,147,483,647: it is 2147483648"),
        ({"timestamp": 1e21}, "timestamp must be at most 1e+20: it is 1e+21"),
        ({"input_length": 2.5}, "input_length must be a whole number from 1: it is 2.5"),
        ({"input_length": "9"}, "input_length must be a whole number from 1: it is '9'"),
        ({"input_length": 2**40}, "input_length must be at most 2,147,483,647"),
        ({"input_length": None}, "input_length is missing"),
        ({"output_length": -1}, "output_length must be a whole number from 0: it is -1"),
        ({"text_input": "hi"}, "more than one prompt: input_length and text_input"),
        ({"session_id": ["s"]}, "session_id must be text: it is a list of 1"),
        ({"delay": -5}, "delay must be a number from 0: it is -5"),
        ({"priority": "high"}, "priority must be a whole number"),
        ({"block_tokens": [3, 509]}, "block_tokens must be blocks of one size"),
        ({"block_tokens": ["a", None]}, "block_tokens must be blocks of one size"),
        ({"block_tokens": [0, 0]}, "block_tokens must be blocks of one size"),
        ({"block_size": 0}, "block_size must be a whole number from 1: it is 0"),
    ],
)
def test_fields_that_are_wrong(change: dict[str, Any], reason: str, tmp_path: Path) -> None:
    message = refused(tmp_path, blocks(1), {**blocks(1), **change}, trace_block_size=512)
    assert message.startswith("trace.jsonl:2: ")
    assert reason in message
