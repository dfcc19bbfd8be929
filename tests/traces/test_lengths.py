"""Logs without identity: what they answer, and what they refuse to."""

from __future__ import annotations

from pathlib import Path

import pytest
from traces.files import opened, refused

from kvtool.errors import InputError
from kvtool.traces.prepare import prepare, unit_of
from kvtool.traces.trace_request import LengthPrompt

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens"
BURST = (
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type"
)


def test_azure(tmp_path: Path) -> None:
    rows = ["2023-11-16 18:15:46.6805900,374,44", "2023-11-16 18:15:50.9951690,396,109"]
    trace = opened(tmp_path, AZURE, *rows)
    assert (trace.format.name, trace.kind) == ("lengths", "lengths")
    first, second = trace
    assert (first.prompt, first.output_tokens, first.id) == (LengthPrompt(374), 44, "2")
    assert second.arrival_s == pytest.approx(4.314579, abs=1e-5)


def test_burstgpt(tmp_path: Path) -> None:
    rows = ["5,,2.5,GPT-4,472,18,490,Conversation log", "45.5,s1,,ChatGPT,9,0,9,API log"]
    first, second = opened(tmp_path, BURST, *rows)
    assert (first.prompt, first.output_tokens, first.session) == (LengthPrompt(472), 18, None)
    assert (first.model, first.recorded.duration_s) == ("GPT-4", 2.5)
    assert (second.arrival_s, second.session) == (40.5, "s1")
    assert second.details == {"Log Type": "API log"}


def test_tracelab_rounds_record_the_providers_hits(tmp_path: Path) -> None:
    row = {"input_tokens_total": 90, "prefix_tokens": 70, "newly_append_tokens": 20}
    (request,) = opened(tmp_path, {**row, "output_tokens": 4, "session_id": "s"})
    assert (request.prompt, request.output_tokens) == (LengthPrompt(90), 4)
    assert request.recorded.cached_tokens == 70
    assert "90 are not 91" in refused(tmp_path, {**row, "input_tokens_total": 91})


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("2023-11-16 18:15:46,374", "a row must have 3 columns: it has 2"),
        ("2023-11-16 18:15:46,many,44", "ContextTokens must be a number: it is 'many'"),
        ("2023-11-16 18:15:46,0,44", "ContextTokens must be a whole number from 1"),
        ("2023-11-16 18:15:46,nan,44", "ContextTokens must be a whole number from 1"),
        ("2023-11-16 18:15:46,,44", "ContextTokens is missing"),
        ("tomorrow,374,44", "TIMESTAMP must be a time: it is 'tomorrow'"),
        ('"2023,374,44', "a row must have 3 columns"),
    ],
)
def test_rows_that_are_wrong(row: str, reason: str, tmp_path: Path) -> None:
    message = refused(tmp_path, AZURE, "2023-11-16 18:15:40,1,1", row)
    assert message.startswith("trace.jsonl:3: ")
    assert reason in message


def test_no_question_about_a_cache_is_answered(tmp_path: Path) -> None:
    trace = opened(tmp_path, AZURE, "2023-11-16 18:15:46,374,44", "2023-11-16 18:15:47,374,44")
    unit = unit_of(trace, 16)
    with pytest.raises(InputError, match="lengths only: whether requests share anything"):
        next(prepare(trace, None, unit))
    loads = list(prepare(trace, None, unit, load_only=True))
    assert [len(load.symbols) for load in loads] == [24, 24]
    assert not set(loads[0].symbols.tolist()) & set(loads[1].symbols.tolist())
    assert [load.num_tokens for load in loads] == [374, 374]
