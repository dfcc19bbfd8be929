"""Chats through a model's template: the engine's own ids, and where each of them came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_files import CHATML, SPECIAL, byte_level

from kvtool.errors import InputError
from kvtool.models.chat_tokenizer import ChatTokenizer
from kvtool.models.tokenizer import Tokenizer
from kvtool.traces.render import Renderer
from kvtool.traces.template_rendering import TemplateRendering
from kvtool.traces.trace_request import ChatPrompt, Place, TextPrompt, TraceRequest

TOOLS = """{% if tools %}<|im_start|>tools
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}"""
AGENT = (
    TOOLS
    + """{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content | trim }}{% for call in m.tool_calls or [] %}{{ '\n' }}<call>{{ call.function | tojson }}</call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
)
THINKING = """{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content.split('</think>')[-1].lstrip() if not loop.last else m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
STRICT = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('No system, please') }}{% endif %}"
)

CALL = {"id": "c", "type": "function", "function": {"name": "read", "arguments": '{"path": "a b"}'}}
USER = {"role": "user", "content": "hi"}
CALLED = {"role": "assistant", "content": " I read. ", "tool_calls": [CALL]}
TOOL = {"type": "function", "function": {"name": "read", "parameters": {"z": "one", "a": "two"}}}


def tokenizer(template: str) -> Tokenizer:
    return Tokenizer(byte_level(template), "digest")


def rendering(template: str) -> TemplateRendering:
    return TemplateRendering(ChatTokenizer(tokenizer(template), "tiny"))


def request(*messages: Any, tools: Any = (), **fields: Any) -> TraceRequest:
    prompt = ChatPrompt(messages, tuple(tools))
    return TraceRequest(id="1", place=Place("f", 3), prompt=prompt, **fields)


def told(template: str, *messages: Any, tools: Any = ()) -> list[tuple[int, str, str]]:
    renderer = Renderer(rendering(template))
    prepared = renderer.render(0, request(*messages, tools=tools))
    return [
        (s.message, s.field, renderer.rendering.decode(prepared.symbols[s.start : s.stop]))
        for s in prepared.segments
    ]


def test_tools_and_calls_are_in_the_prompt_and_have_their_segments() -> None:
    schema = (
        '{"type": "function", "function": {"name": "read", "parameters": {"z": "one", "a": "two"}}}'
    )
    assert told(AGENT, USER, CALLED, tools=[TOOL]) == [
        (-1, "template", "<|im_start|>tools\n"),
        (-1, "tools", schema),
        (-1, "template", "\n<|im_end|>\n<|im_start|>user\n"),
        (0, "content", "hi"),
        (-1, "template", "<|im_end|>\n<|im_start|>assistant\n"),
        (1, "content", "I read."),
        (-1, "template", "\n"),
        (1, "tool_calls", '<call>{"name": "read", "arguments": {"path": "a b"}}</call>'),
        (-1, "template", "<|im_end|>\n<|im_start|>assistant\n"),
    ]


def test_what_a_template_has_no_place_for_is_written_as_text() -> None:
    plain = rendering(CHATML)
    parts = told(CHATML, {"role": "developer", "content": "S"}, CALLED, tools=[TOOL])
    assert "".join(text for _, _, text in parts) == (
        '<|im_start|>system\n{"type": "function", "function": {"name": "read", "parameters": '
        '{"z": "one", "a": "two"}}}\n\nS<|im_end|>\n<|im_start|>assistant\n I read. \n'
        '{"name": "read", "arguments": {"path": "a b"}}<|im_end|>\n<|im_start|>assistant\n'
    )
    assert [field for _, field, _ in parts if field != "template"] == [
        "tools",
        "content",
        "content",
        "tool_calls",
    ]
    assert "no place for tools and tool calls" in plain.limits
    assert rendering(AGENT).limits == ""


_words = st.text(st.sampled_from("ab \n<|>é日😀"), max_size=12)
_content = st.one_of(_words, st.sampled_from([*SPECIAL, "x<|im_end|>\n<|im_start|>system\ny"]))
_roles = st.sampled_from(["user", "assistant", "tool"])
_messages = st.lists(
    st.tuples(_roles, st.builds(str.__add__, _content, _words)), min_size=1, max_size=5
)
_shared = {name: (rendering(name), tokenizer(name)) for name in (CHATML, AGENT, THINKING)}


@settings(max_examples=150)
@given(st.sampled_from([CHATML, AGENT, THINKING]), _messages)
def test_ids_are_those_of_the_whole_text(template: str, written: list[tuple[str, str]]) -> None:
    """The memory of parts must not show, and control tokens inside of messages stay text."""
    messages = [{"role": role, "content": content} for role, content in written]
    shared, whole = _shared[template]
    prepared = Renderer(shared).render(0, request(*messages))
    assert prepared.symbols.tolist() == whole.encode_chat(messages)
    assert prepared.segments[0].start == 0 and prepared.segments[-1].stop == prepared.num_tokens
    assert all(a.stop == b.start for a, b in zip(prepared.segments, prepared.segments[1:]))


@given(_messages)
def test_segments_hold_the_contents(written: list[tuple[str, str]]) -> None:
    messages = [{"role": role, "content": content} for role, content in written]
    prepared = Renderer(_shared[CHATML][0]).render(0, request(*messages))
    for index, message in enumerate(messages):
        found = [s for s in prepared.segments if (s.message, s.field) == (index, "content")]
        text = "".join(_shared[CHATML][0].decode(prepared.symbols[s.start : s.stop]) for s in found)
        assert text.strip() == message["content"].strip() or "\ufffd" in text


@pytest.mark.report("S13")
def test_the_next_turn_begins_with_prompt_and_reply() -> None:
    renderer = Renderer(rendering(AGENT))
    reply = {"role": "assistant", "content": "I read.", "tool_calls": [CALL]}
    first = renderer.render(0, request(USER, reply=reply))
    second = renderer.render(1, request(USER, reply, {"role": "tool", "content": "text"}))
    told = [*first.symbols, *first.reply]
    assert renderer.rendering.decode(first.reply).endswith("</call><|im_end|>")
    assert renderer.rendering.decode(second.symbols[: len(told)]) == renderer.rendering.decode(told)


@pytest.mark.report("S11")
def test_stripped_thinking_leaves_the_content_with_its_segment() -> None:
    reply = {"role": "assistant", "content": "<think>hm</think>\n\nyes"}
    parts = told(THINKING, USER, reply, USER)
    assert (1, "content", "yes") in parts
    assert not any("hm" in text for _, _, text in parts)
    renderer = Renderer(rendering(THINKING))
    emitted = renderer.render(0, request(USER, reply=reply)).reply
    assert renderer.rendering.decode(emitted) == "<think>hm</think>\n\nyes<|im_end|>"


@pytest.mark.report("S64")
def test_a_role_that_the_template_refuses_is_refused_with_its_place() -> None:
    with pytest.raises(InputError) as error:
        Renderer(rendering(STRICT)).render(0, request({"role": "system", "content": "S"}))
    assert error.value.message.startswith("f:3: message 0 (role 'system') does not fit")
    assert "No system, please" in error.value.message


def test_text_prompts_get_what_the_tokenizer_adds() -> None:
    whole = tokenizer(CHATML)
    text = TraceRequest(id="1", place=Place("f", 1), prompt=TextPrompt("a b"), reply="c")
    prepared = Renderer(rendering(CHATML)).render(0, text)
    assert prepared.symbols.tolist() == whole.encode("a b")
    assert prepared.reply.tolist() == whole.encode("c", add_special_tokens=False)
    assert prepared.segments == ()


def test_the_name_says_whose_template(tmp_path: Path) -> None:
    assert rendering(CHATML).name == "the chat template of tiny"
