"""LiteLLM's logs of calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from traces.files import opened, refused

from kvtool.traces.trace_request import BlockPrompt, ChatPrompt

USER = {"role": "user", "content": "hi"}
CHOICE = {"message": {"role": "assistant", "content": "ho"}}


def row(**fields: Any) -> dict[str, Any]:
    return {
        "id": "r",
        "call_type": "acompletion",
        "model": "m",
        "startTime": 1760997623.0,
        "completionStartTime": 1760997623.5,
        "endTime": 1760997625.0,
        "trace_id": "t",
        "messages": [USER],
        "prompt_tokens": 20,
        "completion_tokens": 2,
        **fields,
    }


def test_a_call_is_a_request(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 20, "prompt_tokens_details": {"cached_tokens": 16}}
    trace = opened(tmp_path, row(response={"choices": [CHOICE], "usage": usage}))
    (request,) = trace
    assert trace.format.name == "litellm"
    assert request.prompt == ChatPrompt((USER,))
    assert request.reply == {"role": "assistant", "content": "ho"}
    assert (request.recorded.prompt_tokens, request.recorded.cached_tokens) == (20, 16)
    assert (request.recorded.ttft_s, request.recorded.duration_s) == (0.5, 2)
    assert (request.id, request.session, request.model) == ("r", "t", "m")


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": '[{"role": "user", "content": "hi"}]'},
        {
            "messages": {},
            "proxy_server_request": '{"messages": [{"role": "user", "content": "hi"}]}',
        },
    ],
)
def test_messages_may_be_text_or_lie_in_what_was_sent(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    (request,) = opened(tmp_path, row(**fields))
    assert request.prompt == ChatPrompt((USER,))


def test_cached_tokens_of_the_metadata(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 20, "cache_read_input_tokens": 8}
    (request,) = opened(tmp_path, row(metadata={"usage_object": usage}))
    assert (request.recorded.prompt_tokens, request.recorded.cached_tokens) == (20, 8)


def test_replies_from_litellms_own_cache_reached_no_model(tmp_path: Path) -> None:
    trace = opened(tmp_path, row(), row(cache_hit="True"))
    assert len(trace) == 1
    assert any("its own cache" in warning for warning in trace.warnings)


def test_hashes_of_prefix_blocks_stand_in_for_messages(tmp_path: Path) -> None:
    hashes = ["00000000000000aa", "00000000000000bb"]
    (request,) = opened(
        tmp_path, row(messages=None, prefix_block_hashes=hashes), trace_block_size=16
    )
    assert request.prompt == BlockPrompt(tuple(hashes), 20)


def test_a_call_without_messages_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, row(), row(messages={})) == "trace.jsonl:2: messages is empty."
