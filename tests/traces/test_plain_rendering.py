"""Chats as plain text: what is in the prompt, where it came from, how the next turn goes on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.errors import InputError
from kvtool.traces.fallback_tokenizer import FallbackTokenizer
from kvtool.traces.plain_rendering import PlainRendering
from kvtool.traces.prepared import PreparedRequest
from kvtool.traces.render import Renderer
from kvtool.traces.trace_request import ChatPrompt, Place, TextPrompt, TraceRequest

CALL = {"type": "function", "function": {"name": "read", "arguments": '{"path":"a"}'}, "id": "c"}
SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "hi"}
CALLED = {"role": "assistant", "content": "", "tool_calls": [CALL]}
RESULT = {"role": "tool", "content": "text", "tool_call_id": "c", "name": "read"}


def request(*messages: Any, tools: Any = (), **fields: Any) -> TraceRequest:
    prompt = ChatPrompt(messages, tuple(tools))
    return TraceRequest(id="1", place=Place("f", 3), prompt=prompt, **fields)


def rendering() -> PlainRendering:
    return PlainRendering(FallbackTokenizer())


def told(prepared: PreparedRequest, plain: PlainRendering) -> list[tuple[int, str, str]]:
    return [
        (
            segment.message,
            segment.field,
            plain.decode(prepared.symbols[segment.start : segment.stop]),
        )
        for segment in prepared.segments
    ]


def test_the_text_of_a_chat_with_tools() -> None:
    plain = rendering()
    tool = {"type": "function", "function": {"name": "read"}}
    prepared = Renderer(plain).render(7, request(SYSTEM, USER, CALLED, RESULT, tools=[tool]))
    assert told(prepared, plain) == [
        (-1, "template", "<|tools|>\n"),
        (-1, "tools", '{"type": "function", "function": {"name": "read"}}\n'),
        (-1, "template", "<|end|>\n<|system|>\n"),
        (0, "content", "Be brief."),
        (-1, "template", "<|end|>\n<|user|>\n"),
        (1, "content", "hi"),
        (-1, "template", "<|end|>\n<|assistant|>\n"),
        (2, "tool_calls", '\n{"name": "read", "arguments": {"path":"a"}}'),
        (-1, "template", "<|end|>\n<|tool|>\n"),
        (3, "content", "text"),
        (-1, "template", "<|end|>\n<|assistant|>\n"),
    ]
    assert prepared.index == 7 and prepared.num_tokens == len(prepared.symbols)
    assert prepared.symbols.dtype == np.int32


def test_who_speaks_is_in_the_prompt() -> None:
    plain = rendering()
    prepared = Renderer(plain).render(0, request({**USER, "name": "ann"}))
    assert plain.decode(prepared.symbols).startswith("<|user ann|>\nhi")


@pytest.mark.report("S13")
def test_the_next_turn_begins_with_prompt_and_reply() -> None:
    plain = Renderer(rendering())
    reply = {"role": "assistant", "content": "I read.", "tool_calls": [CALL]}
    first = plain.render(0, request(SYSTEM, USER, reply=reply))
    second = plain.render(1, request(SYSTEM, USER, reply, RESULT))
    told = [*first.symbols, *first.reply]
    assert second.symbols[: len(told)].tolist() == told
    assert first.num_output_tokens == len(first.reply)


@pytest.mark.report("S11")
def test_thinking_is_in_the_reply_and_in_no_later_prompt() -> None:
    plain = Renderer(rendering())
    reply = {"role": "assistant", "content": "yes", "reasoning_content": "hm"}
    first = plain.render(0, request(USER, reply=reply, output_tokens=40))
    second = plain.render(1, request(USER, reply, USER))
    assert plain.rendering.decode(first.reply) == "<think>\nhm\n</think>\n\nyes<|end|>\n"
    assert first.num_output_tokens == 40
    assert "hm" not in plain.rendering.decode(second.symbols)
    assert second.symbols[: len(first.symbols)].tolist() == first.symbols.tolist()


def test_text_prompts_have_no_segments_and_text_replies() -> None:
    renderer = Renderer(rendering())
    text = TraceRequest(id="1", place=Place("f", 1), prompt=TextPrompt("a b"), reply="c d")
    prepared = renderer.render(0, text)
    assert renderer.rendering.decode(prepared.symbols) == "a b"
    assert renderer.rendering.decode(prepared.reply) == "c d"
    assert prepared.segments == ()
    assert len(Renderer(rendering(), with_replies=False).render(0, text).reply) == 0


@pytest.mark.report("S62")
def test_a_prompt_without_tokens_is_refused_with_its_place() -> None:
    empty = TraceRequest(id="1", place=Place("f", 5), prompt=TextPrompt(""))
    with pytest.raises(InputError, match=r"^f:5: the prompt has no tokens\.$"):
        Renderer(rendering()).render(0, empty)


_names = st.sampled_from(["read", "write", "find"])
_arguments = st.sampled_from(["{}", '{"path": "a"}', '{"n": [1, 2]}'])
_calls = st.lists(st.tuples(_names, _arguments), max_size=3)
_messages = st.lists(
    st.tuples(
        st.sampled_from(["system", "user", "assistant", "tool"]), st.text(max_size=20), _calls
    ),
    min_size=1,
    max_size=6,
)


@given(_messages)
def test_segments_tile_the_prompt_and_every_call_is_in_it(written: list[Any]) -> None:
    messages = []
    for role, content, calls in written:
        functions = [{"name": name, "arguments": arguments} for name, arguments in calls]
        tool_calls = [{"type": "function", "function": function} for function in functions]
        messages.append({"role": role, "content": content, "tool_calls": tool_calls})
    plain = rendering()
    prepared = Renderer(plain).render(0, request(*messages))
    edges = [segment.start for segment in prepared.segments] + [prepared.segments[-1].stop]
    assert edges[0] == 0 and edges[-1] == prepared.num_tokens and edges == sorted(set(edges))
    for index, message in enumerate(messages):
        parts = told(prepared, plain)
        content = "".join(text for m, field, text in parts if (m, field) == (index, "content"))
        called = "".join(text for m, field, text in parts if (m, field) == (index, "tool_calls"))
        assert content == message["content"]
        assert called == "".join(
            f'\n{{"name": "{call["function"]["name"]}", '
            f'"arguments": {call["function"]["arguments"]}}}'
            for call in message["tool_calls"]
        )
