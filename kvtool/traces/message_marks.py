"""Where the parts of a chat's messages end up in the text that a template makes of them.

Each part is rendered between marks that no text contains, and the marks are taken out again:

    {{ message.content | trim }}    " ‹0c›hello‹/0c› "  ->  ‹0c›hello‹/0c›  ->  hello at [0, 5)

A template may look into a text (for thinking, for one), so the result counts only where it is the
text that the template makes without marks.
"""

from __future__ import annotations

import re
import secrets
from itertools import takewhile
from typing import Any, NamedTuple

from kvtool.traces.embedded_json import unpacked
from kvtool.traces.trace_request import ChatPrompt, Json


class Span(NamedTuple):
    """Characters [start, stop) of the rendered text; message, field: as in `Segment`."""

    start: int
    stop: int
    message: int
    field: str


class MessageMarks:
    def __init__(self) -> None:
        self._secret = f"\ufdd1{secrets.token_hex(8)}"
        self._mark = re.compile(f"{self._secret}(-?[0-9]+)([a-z_]+)(/?);")

    def marked(self, prompt: ChatPrompt) -> ChatPrompt:
        messages = (self._message(i, message) for i, message in enumerate(prompt.messages))
        tools = (self._leaves(tool, -1, "tools") for tool in prompt.tools)
        return ChatPrompt(tuple(messages), tuple(tools))

    def taken_out(self, text: str, prompt: ChatPrompt) -> tuple[str, list[Span]]:
        """The text without marks, and where the marks were: a part reaches from its first mark to
        its last. A content that lost its first mark with its beginning (thinking, for one) is what
        before its last mark is the end of it."""
        kept: list[str] = []
        starts: dict[tuple[int, str], int] = {}
        stops: dict[tuple[int, str], int] = {}
        length = position = 0
        for mark in self._mark.finditer(text):
            kept.append(text[position : mark.start()])
            length += mark.start() - position
            position = mark.end()
            part = int(mark[1]), mark[2]
            if mark[3]:
                stops[part] = length
            else:
                starts.setdefault(part, length)
        without = "".join([*kept, text[position:]])
        for index, field in stops.keys() - starts.keys():
            core = (prompt.messages[index].get("content") or "").strip() if index >= 0 else ""
            stop = stops[index, field]
            starts[index, field] = stop - _common_ending(core, without[:stop])
        spans = (Span(start, stops[p], *p) for p, start in starts.items() if p in stops)
        return without, sorted(span for span in spans if span.start < span.stop)

    def _message(self, index: int, message: Json) -> Json:
        content = self._around(message.get("content") or "", index, "content")
        result = {**message, "content": content}
        if message.get("tool_calls"):
            result["tool_calls"] = [self._call(index, call) for call in message["tool_calls"]]
        return result

    def _call(self, index: int, call: Json) -> Json:
        """Only what is rendered as text: some templates count the characters of a call's id."""
        function = call["function"]
        marked = {
            "name": self._around(function["name"], index, "tool_calls"),
            "arguments": self._leaves(unpacked(function["arguments"]), index, "tool_calls"),
        }
        return {**call, "function": {**function, **marked}}

    def _leaves(self, value: Any, message: int, field: str) -> Any:
        if isinstance(value, str):
            return self._around(value, message, field)
        if isinstance(value, dict):
            return {key: self._leaves(inner, message, field) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._leaves(inner, message, field) for inner in value]
        return value

    def _around(self, text: str, message: int, field: str) -> str:
        """White space at both ends stays outside, where a template can trim it."""
        core = text.strip()
        if not core:
            return text
        start = text.index(core)
        mark = f"{self._secret}{message}{field}"
        return f"{text[:start]}{mark};{core}{mark}/;{text[start + len(core) :]}"


def _common_ending(one: str, other: str) -> int:
    """Characters; white space at its beginning may well be the template's."""
    backwards = zip(reversed(one), reversed(other))
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], backwards))
    return len(one[len(one) - same :].lstrip())


def found_by_content(text: str, prompt: ChatPrompt) -> list[Span]:
    """Where contents stand, one after another, by looking for them. Of a reply whose thinking the
    template left out, what follows the thinking is looked for."""
    spans: list[Span] = []
    position = 0
    for index, message in enumerate(prompt.messages):
        content = (message.get("content") or "").strip()
        for core in (content, content.rpartition("</think>")[2].strip()):
            start = text.find(core, position) if core else -1
            if start >= 0:
                position = start + len(core)
                spans.append(Span(start, position, index, "content"))
                break
    return spans
