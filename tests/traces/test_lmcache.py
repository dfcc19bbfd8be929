"""LMCache's agent traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from traces.files import opened, refused

from kvtool.errors import InputError
from kvtool.traces.open_trace import open_trace
from kvtool.traces.trace_request import TextPrompt

SECOND = 1_000_000


def row(second: float, prompt: Any, output: Any = "out") -> dict[str, Any]:
    timestamp = 1760997623 * SECOND + int(second * SECOND)
    return {"timestamp": timestamp, "input": prompt, "output": output, "session_id": "s"}


def test_lines_are_text_prompts_in_the_order_of_time(tmp_path: Path) -> None:
    trace = opened(tmp_path, row(4, "a b"), row(1.5, "a"), row(0, "hi", ""))
    assert trace.format.name == "lmcache"
    assert [request.prompt for request in trace] == [TextPrompt(t) for t in ("hi", "a", "a b")]
    assert [request.arrival_s for request in trace] == [0, 1.5, 4]
    assert [request.reply for request in trace] == ["", "out", "out"]
    assert {request.session for request in trace} == {"s"}
    assert any("backwards" in warning for warning in trace.warnings)


def test_an_empty_prompt_is_a_bad_record(tmp_path: Path) -> None:
    assert refused(tmp_path, row(0, "a"), row(1, "")) == "trace.jsonl:2: input is empty."
    assert (
        refused(tmp_path, row(0, "a"), row(1, 5)) == "trace.jsonl:2: input must be text: it is 5."
    )


@pytest.mark.report("S62")
def test_an_empty_file_is_said_to_be_empty(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(InputError, match=r"empty\.jsonl is empty"):
        open_trace([tmp_path / "empty.jsonl"])
