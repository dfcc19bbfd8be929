"""A model's tokenizer and chat template as traces are rendered with them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvtool.models.tokenizer import Tokenizer
from kvtool.traces.content import compact
from kvtool.traces.embedded_json import unpacked
from kvtool.traces.prepared import Symbols
from kvtool.traces.rendering import EncodedPart, Part
from kvtool.traces.trace_request import Json


class ChatTokenizer:
    """Implements `kvtool.traces.rendering.ChatTokenizer`.

    What a template has no place for is written where it has one, never left out: the role
    developer (OpenAI's later name of system) as system, tool calls behind their message's text,
    tool schemas before the system's. name: of the model."""

    def __init__(self, tokenizer: Tokenizer, name: str) -> None:
        self._tokenizer = tokenizer
        self.name = name
        self._knows_developer = tokenizer.template_mentions("developer")
        self._knows_calls = tokenizer.template_mentions("tool_calls")
        self._knows_tools = tokenizer.template_mentions("tools")

    @property
    def limits(self) -> str:
        known = {"tools": self._knows_tools, "tool calls": self._knows_calls}
        unknown = " and ".join(what for what, is_known in known.items() if not is_known)
        return unknown and (
            f"The chat template of {self.name} has no place for {unknown}: they are written as JSON "
            "into the text of their messages."
        )

    def render(
        self, messages: Sequence[Json], tools: Sequence[Json], *, add_generation_prompt: bool
    ) -> str:
        if not self._knows_developer:
            messages = [_as_system(message) for message in messages]
        if not self._knows_calls:
            messages = [_with_calls_as_text(message) for message in messages]
        if tools and not self._knows_tools:
            messages, tools = _with_tools_as_text(messages, tools), ()
        return self._tokenizer.render_marked(
            messages, tools, add_generation_prompt=add_generation_prompt
        )

    def parts(self, rendered: str) -> list[Part]:
        spans = self._tokenizer.control.spans(rendered)
        starts = [start for start, _ in spans]
        head = [Part(rendered[: starts[0]], 0)] if spans and starts[0] else []
        if not spans:
            return [Part(rendered, 0)] if rendered else []
        stops = [*starts[1:], len(rendered)]
        return head + [
            Part(rendered[start:stop], control - start)
            for (start, control), stop in zip(spans, stops)
        ]

    def encode_part(self, part: str) -> EncodedPart:
        ids, starts = self._tokenizer.control.encode_with_starts(part)
        return EncodedPart(np.array(ids, np.int32), np.array(starts, np.int32))

    def encode(self, text: str) -> Symbols:
        return np.array(self._tokenizer.encode(text), np.int32)

    def decode(self, ids: Sequence[int] | Symbols) -> str:
        return self._tokenizer.decode([int(i) for i in ids])


def _with_calls_as_text(message: Json) -> Json:
    """Arguments as objects, which is what a template would get."""
    lines = [message["content"]]
    for function in (call["function"] for call in message.get("tool_calls") or ()):
        arguments = unpacked(function["arguments"])
        lines.append(compact({"name": function["name"], "arguments": arguments}))
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "content": "\n".join(filter(None, lines))}


def _with_tools_as_text(messages: Sequence[Json], tools: Sequence[Json]) -> list[Json]:
    schemas = "\n".join(compact(tool) for tool in tools)
    first, *rest = messages
    if first["role"] != "system":
        return [{"role": "system", "content": schemas}, *messages]
    return [{**first, "content": "\n\n".join(filter(None, (schemas, first["content"])))}, *rest]


def _as_system(message: Json) -> Json:
    return {**message, "role": "system"} if message["role"] == "developer" else message
