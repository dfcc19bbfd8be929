"""Whatever a log holds, reading and rendering it ends in requests or in one clear error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traces.files import write_rows

from kvtool.errors import InputError
from kvtool.traces.fallback_tokenizer import FallbackTokenizer
from kvtool.traces.formats import format_named
from kvtool.traces.plain_rendering import PlainRendering
from kvtool.traces.read_log import ReadLog
from kvtool.traces.render import Renderer
from kvtool.traces.trace_file import TraceFile
from kvtool.traces.trace_request import ChatPrompt, TextPrompt, TraceRequest

FORMATS = [
    "openai",
    "claude-code",
    "codex",
    "lmcache",
    "swe-agent",
    "tau-bench",
    "tau2",
    "openhands",
    "sharegpt",
    "otel",
    "openinference",
    "langfuse",
    "litellm",
]
# Names and values that the formats look for, so that garbage gets past the first check.
NAMES = [
    "messages",
    "role",
    "content",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "tools",
    "id",
    "type",
    "text",
    "timestamp",
    "input",
    "output",
    "session_id",
    "usage",
    "prompt_tokens",
    "response",
    "choices",
    "message",
    "body",
    "prompt",
    "uuid",
    "parentUuid",
    "sessionId",
    "isSidechain",
    "payload",
    "base_instructions",
    "info",
    "last_token_usage",
    "total_token_usage",
    "history",
    "trajectory",
    "query",
    "agent",
    "traj",
    "task_id",
    "simulations",
    "policy",
    "source",
    "action",
    "observation",
    "args",
    "timestamp",
    "tool_call_metadata",
    "model_response",
    "conversations",
    "from",
    "value",
    "resourceSpans",
    "scopeSpans",
    "spans",
    "attributes",
    "key",
    "stringValue",
    "arrayValue",
    "values",
    "events",
    "gen_ai.input.messages",
    "gen_ai.prompt.0.role",
    "gen_ai.prompt",
    "parts",
    "gen_ai.request.model",
    "llm.input_messages.0.message.role",
    "llm.input_messages",
    "openinference.span.kind",
    "observations",
    "traceId",
    "usageDetails",
    "metadata",
    "startTime",
    "endTime",
    "prefix_block_hashes",
    "input_length",
    "isApiErrorMessage",
    "tool_use_id",
    "thinking",
    "replacement_history",
    "call_id",
    "item",
    "start_time",
    "context",
    "span_id",
    "forgotten_event_ids",
    "summary",
    "is_demo",
    "execution_time",
    "function_call",
    "model",
    "proxy_server_request",
    "cache_hit",
]
VALUES = [
    "user",
    "assistant",
    "system",
    "tool",
    "tool_use",
    "tool_result",
    "text",
    "thinking",
    "function_call",
    "message",
    "function_call_output",
    "response_item",
    "session_meta",
    "event_msg",
    "token_count",
    "compacted",
    "turn_context",
    "GENERATION",
    "LLM",
    "chat",
    "tool_call",
    "tool_call_response",
    "condensation",
    "recall",
    "run",
    "agent",
    "human",
    "gpt",
    "{}",
    "[]",
    '[{"role":"user","content":"hi"}]',
    "2025-06-01T10:00:00Z",
    "null",
]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2**64),
    st.floats(allow_nan=False),
    st.text(max_size=6),
)
words = st.one_of(st.sampled_from(VALUES), scalars)
names = st.one_of(st.sampled_from(NAMES), st.text(max_size=3))
json_values: st.SearchStrategy[Any] = st.recursive(
    words,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=4)),
    max_leaves=12,
)
chat = st.fixed_dictionaries({"role": words, "content": json_values})
records = st.one_of(
    st.dictionaries(names, json_values, max_size=5),
    st.fixed_dictionaries({"messages": st.lists(st.one_of(chat, json_values), max_size=3)}),
    st.fixed_dictionaries(
        {"type": words, "uuid": words, "parentUuid": words, "message": st.one_of(chat, json_values)}
    ),
    st.fixed_dictionaries({"type": words, "payload": st.dictionaries(names, json_values)}),
    st.fixed_dictionaries({"source": words, "action": words, "args": json_values}),
    st.fixed_dictionaries({"attributes": st.dictionaries(names, json_values)}),
    st.fixed_dictionaries(
        {"type": st.just("GENERATION"), "input": json_values, "output": json_values}
    ),
    st.fixed_dictionaries({"history": st.lists(chat, max_size=3), "trajectory": json_values}),
)


@pytest.mark.report("S57")
@settings(max_examples=120)
@given(rows=st.lists(records, min_size=1, max_size=4))
def test_garbage_is_refused_or_skipped_and_never_more(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any]
) -> None:
    path = write_rows(tmp_path_factory.mktemp("garbage") / "t.jsonl", map(json.dumps, rows))
    for name in FORMATS:
        known, file = format_named(name), TraceFile("t.jsonl", path)
        known.recognise(file.head())
        for lenient in (False, True):
            try:
                rendered(list(known.read(file, ReadLog(lenient=lenient))))
            except InputError as error:
                assert error.message.startswith("t.jsonl")
                assert not lenient or "generator" in error.message


def rendered(requests: list[TraceRequest]) -> None:
    renderer = Renderer(PlainRendering(FallbackTokenizer()))
    for index, request in enumerate(requests):
        if isinstance(request.prompt, ChatPrompt | TextPrompt):
            prepared = renderer.render(index, request)
            assert prepared.num_tokens == len(prepared.symbols) > 0


@pytest.mark.report("S61")
@pytest.mark.parametrize("name", ["openai", "sharegpt", "lmcache"])
def test_lone_surrogates_become_the_replacement_character(tmp_path: Path, name: str) -> None:
    rows = {
        "openai": r'{"messages": [{"role": "user", "content": "a\udc9db"}]}',
        "sharegpt": r'{"conversations": [{"from": "human", "value": "a\udc9db"}]}',
        "lmcache": r'{"timestamp": 1, "input": "a\udc9db", "output": "", "session_id": "s"}',
    }
    log = ReadLog()
    path = write_rows(tmp_path / "t.jsonl", [rows[name]])
    (request,) = format_named(name).read(TraceFile("t.jsonl", path), log)
    plain = PlainRendering(FallbackTokenizer())
    assert "a\ufffdb" in plain.decode(Renderer(plain).render(0, request).symbols)
    assert any("surrogates" in note for note in log.notes)
