"""Bailian's traces and ServeGen's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from traces.files import Row, opened, refused

from kvtool.traces.trace_request import BlockPrompt, LengthPrompt


def chat(chat_id: int, parent: int, *ids: int, **fields: Any) -> Row:
    return {"chat_id": chat_id, "parent_chat_id": parent, "timestamp": 61.114} | {
        "input_length": 16 * len(ids) - 3,
        "output_length": 5,
        "type": "text",
        "turn": 1,
        "hash_ids": list(ids),
        **fields,
    }


def test_seconds_blocks_of_16_and_turns(tmp_path: Path) -> None:
    rows = [
        chat(7, -1, 1, 2),
        chat(8, -1, 5, timestamp=61.614),
        chat(9, 7, 1, 2, 3, timestamp=70.114, turn=2),
        chat(10, 9, 1, 2, 3, 4, timestamp=80.114, turn=3),
    ]
    trace = opened(tmp_path, *rows)
    assert (trace.format.name, trace.block_size) == ("bailian", 16)
    assert [r.id for r in trace] == ["7", "8", "9", "10"]
    assert [r.session for r in trace] == ["7", "8", "7", "7"]
    assert [r.after for r in trace] == [(), (), ("7",), ("9",)]
    assert [round(r.arrival_s or 0, 6) for r in trace] == [0, 0.5, 9, 19]
    assert next(iter(trace)).prompt == BlockPrompt((1, 2), 29, 16)


def test_a_turn_whose_parent_was_cut_off(tmp_path: Path) -> None:
    trace = opened(tmp_path, chat(7, 3, 1, turn=4))
    assert next(iter(trace)).after == ()
    assert any("whose earlier turn is not in the trace" in warning for warning in trace.warnings)


def test_ids_that_do_not_fit_16_tokens(tmp_path: Path) -> None:
    message = refused(tmp_path, chat(1, -1, 1), chat(2, -1, 1, 2, input_length=50))
    assert message.startswith("trace.jsonl:2: the number of hash ids does not fit")
    assert "50 tokens in blocks of 16 need 4 ids, there are 2" in message
    assert "another block size" in refused(tmp_path, chat(1, -1, 1), trace_block_size=32)


def test_servegen_has_no_times(tmp_path: Path) -> None:
    row = {"request_id": 4, "type": "image", "input_length": 20, "hash_ids": [3, 4], "img_ids": []}
    trace = opened(tmp_path, row)
    (request,) = trace
    assert (trace.format.name, request.id, request.arrival_s) == ("bailian", "4", None)
    assert request.prompt == BlockPrompt((3, 4), 20, 16)
    lengths = {"type": "text", "input_length": 20, "output_length": 3, "duration": 1500}
    (request,) = opened(tmp_path, lengths)
    assert request.prompt == LengthPrompt(20)
    assert request.recorded.duration_s == 1.5
