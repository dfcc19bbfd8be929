"""Langfuse observations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from traces.files import opened, refused

from kvtool.traces.trace_request import ChatPrompt, TextPrompt

USER = {"role": "user", "content": "hi"}
ANSWER = {"role": "assistant", "content": "ho"}


def generation(prompt: Any, **fields: Any) -> dict[str, Any]:
    return {
        "id": "g",
        "type": "GENERATION",
        "traceId": "t",
        "startTime": "2025-10-20T22:00:23.000Z",
        "completionStartTime": "2025-10-20T22:00:23.250Z",
        "endTime": "2025-10-20T22:00:24.000Z",
        "model": "m",
        "input": prompt,
        "output": ANSWER,
        "usageDetails": {"input": 4, "input_cached_tokens": 16, "output": 2, "total": 22},
        **fields,
    }


@pytest.mark.parametrize(
    "prompt",
    [[USER], {"messages": [USER]}, '[{"role": "user", "content": "hi"}]', {"content": "hi"}],
)
def test_inputs_of_every_form(tmp_path: Path, prompt: Any) -> None:
    trace = opened(tmp_path, generation(prompt))
    (request,) = trace
    assert trace.format.name == "langfuse"
    assert request.prompt == ChatPrompt((USER,))
    assert request.reply == ANSWER
    assert (request.id, request.session, request.model) == ("g", "t", "m")


def test_kinds_of_input_tokens_add_up_to_the_prompt(tmp_path: Path) -> None:
    (request,) = opened(tmp_path, generation([USER]))
    assert (request.recorded.prompt_tokens, request.recorded.cached_tokens) == (20, 16)
    assert (request.output_tokens, request.recorded.ttft_s) == (2, 0.25)
    assert request.recorded.duration_s == 1


def test_tools_and_text(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    rows = [
        generation({"messages": [USER], "tools": tools}),
        generation([USER], metadata={"tools": tools}),
        generation("hi there"),
    ]
    first, second, third = opened(tmp_path, *rows)
    assert first.prompt == second.prompt == ChatPrompt((USER,), tuple(tools))
    assert third.prompt == TextPrompt("hi there")


def test_observations_may_lie_inside_of_a_trace(tmp_path: Path) -> None:
    inside = [
        generation([USER]),
        {"type": "SPAN", "id": "x"},
        generation([USER, ANSWER, USER], id="h"),
    ]
    first, second = opened(tmp_path, {"id": "t", "sessionId": "s", "observations": inside})
    assert (first.session, second.after) == ("s", ("g",))


def test_other_observations_are_no_requests(tmp_path: Path) -> None:
    assert len(opened(tmp_path, {"type": "SPAN", "traceId": "t"}, generation([USER]))) == 1


def test_a_generation_without_a_prompt_is_refused(tmp_path: Path) -> None:
    message = refused(tmp_path, generation([USER]), generation(None))
    assert message.startswith("trace.jsonl:2: input is empty")
