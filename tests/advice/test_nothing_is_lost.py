"""Whatever the trace, a rewriting keeps what prompts say."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from typing import Any

import pytest
from advice.chat_traces import Row, assistant, chat, messages_of, system, user
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.advice.compaction import in_larger_steps
from kvtool.advice.rewrite import Rewrite, composed
from kvtool.advice.stable_first import shared_first
from kvtool.advice.tool_order import in_first_order
from kvtool.advice.volatile_fields import moved, to_last_user, to_system_end
from kvtool.traces.trace_request import ChatPrompt, TraceRequest

MOVING: dict[str, Rewrite] = {
    "tools": in_first_order,
    "to system": partial(moved, destination=to_system_end),
    "to user": partial(moved, destination=to_last_user),
    "stable first": shared_first,
}
MOVING["all"] = composed(list(MOVING.values()))
EVERY = {**MOVING, "compaction": in_larger_steps}
ALONE = [name for name in EVERY if name != "all"]

PIECES = [
    "Time: 08:15:0{n}.",
    "Today is 2024-05-0{n}",
    "Request id: req_abcdef12{n}",
    "<now>2024-05-0{n}</now>",
    "<env>\ncwd: /{n}\n\ndate: 2024-05-0{n}\n</env>",
    "You are a guide.",
    "Upload number {n}.",
    "It is in UTC.",
    "The following holds:",
    "- one\n- two {n}",
    "1. Turn: {n}.\n2. Go.",
    "# Heading {n}",
    "## Smaller",
    "```\n08:15:0{n}\n\ncode\n```",
    "```",
    "<open>",
    "Handbook text, long and the same for all of them.",
    "",
]
TOOLS = [
    {"type": "function", "function": {"name": f"t{n}", "parameters": {"a": n, "b": {"c": 1}}}}
    for n in range(3)
]


@st.composite
def traces(draw: st.DrawFn) -> list[TraceRequest]:
    """Clients that fill the same form anew for each request, or now and then another one."""
    number = st.integers(0, 3)
    one_form, window = draw(forms()), draw(st.integers(1, 2))
    session = draw(st.sampled_from(["a", None]))
    requests = []
    for n in range(draw(st.integers(2, 5))):
        form = one_form if draw(number) else draw(forms())
        values = [draw(number) for _ in form]
        text = "".join(p.replace("{n}", str(k)) + join for (p, join), k in zip(form, values))
        head = [system(text)] if form else []
        tools = draw(st.permutations(TOOLS))[: draw(number)]
        talk = talks(max(0, n - window), n, draw(ENDS))
        requests.append(chat(n, *head, *talk, tools=tools, session=session))
    return requests


@st.composite
def forms(draw: st.DrawFn) -> list[tuple[str, str]]:
    joins = st.sampled_from(["\n\n", "\n", " "])
    return draw(st.lists(st.tuples(st.sampled_from(PIECES), joins), max_size=5))


ENDS = st.sampled_from(["And?", "And?", "```open", "Hi:", ""])


def talks(first: int, last: int, end: str) -> list[Row]:
    messages: list[Row] = []
    for n in range(first, last):
        function = {"name": "t0", "arguments": ['{"a":1}', '{"a": 1}', "a"][(n + last) % 3]}
        call = {"id": f"c{n}", "type": "function", "function": function}
        messages += [user(f"Question {n} at 08:1{n}:00."), assistant("", tool_calls=[call])]
        messages += [{"role": "tool", "tool_call_id": f"c{n}", "content": f"{n}"}, assistant("So.")]
    return [*messages, user(f"Question {last} at 08:1{last}:00." if end == "And?" else end)]


def said(request: TraceRequest) -> Counter[str]:
    """Words of all messages together, arguments by value."""
    words: Counter[str] = Counter()
    for message in messages_of(request):
        words.update(message["content"].split())
    return words


def shape(request: TraceRequest) -> list[Any]:
    """Roles in order, with calls and what they are answered by."""
    return [
        (
            message["role"],
            message.get("tool_call_id"),
            [c["id"] for c in message.get("tool_calls", ())],
        )
        for message in messages_of(request)
    ]


@pytest.mark.parametrize("name", MOVING)
@settings(max_examples=40)
@given(requests=traces())
def test_all_words_and_messages_stay(name: str, requests: list[TraceRequest]) -> None:
    for old, new in zip(requests, MOVING[name](lambda: requests), strict=True):
        assert said(new) == said(old)
        assert shape(new) == shape(old)
        assert isinstance(old.prompt, ChatPrompt) and isinstance(new.prompt, ChatPrompt)
        assert sorted(map(canonical, new.prompt.tools)) == sorted(map(canonical, old.prompt.tools))
        middle = [m["content"] for m in messages_of(old) if m["role"] in ("assistant", "tool")]
        assert middle == [
            m["content"] for m in messages_of(new) if m["role"] in ("assistant", "tool")
        ]


@settings(max_examples=40)
@given(requests=traces())
def test_larger_steps_only_add_in_front(requests: list[TraceRequest]) -> None:
    for old, new in zip(requests, in_larger_steps(lambda: requests), strict=True):
        before, after = list(messages_of(old)), list(messages_of(new))
        head = 1 if before[0]["role"] == "system" else 0
        assert after[:head] == before[:head]
        tail = before[head:]
        assert after[len(after) - len(tail) :] == tail
        calls = [call["id"] for m in after for call in m.get("tool_calls", ())]
        assert calls == [m["tool_call_id"] for m in after if m["role"] == "tool"]


@pytest.mark.parametrize("name", ALONE)
@settings(max_examples=40)
@given(requests=traces())
def test_twice_is_once(name: str, requests: list[TraceRequest]) -> None:
    once = list(EVERY[name](lambda: requests))
    assert list(EVERY[name](lambda: once)) == once


@pytest.mark.parametrize("name", EVERY)
@settings(max_examples=15)
@given(requests=traces())
def test_only_prompts_change(name: str, requests: list[TraceRequest]) -> None:
    for old, new in zip(requests, EVERY[name](lambda: requests), strict=True):
        for field in ("id", "place", "session", "arrival_s", "after", "reply", "model"):
            assert getattr(new, field) == getattr(old, field)


def canonical(tool: Any) -> str:
    return json.dumps(tool, sort_keys=True)
