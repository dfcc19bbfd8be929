"""A chat as plain text, for when there is no chat template.

    tools, one schema a line    <|tools|>\\n{"type": "function", …}\\n<|end|>\\n
    a message                   <|user|>\\nWhat is in a.txt?<|end|>\\n
    with tool calls             <|assistant|>\\n…\\n{"name": "read", "arguments": {…}}<|end|>\\n
    where the reply begins      <|assistant|>\\n

As most templates do, it leaves out call ids and the thinking of earlier turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from kvtool.traces.content import compact
from kvtool.traces.prepared import Segment, Symbols
from kvtool.traces.rendering import Rendered, Tokenizer
from kvtool.traces.trace_request import ChatPrompt, Json, TextPrompt

END = "<|end|>\n"
TEMPLATE = (-1, "template")
LIMITS = (
    "Without a chat template, roles and tools are written in kvtool's plain form, with the tools "
    "before the system text; a model's template may put them elsewhere."
)


class PlainRendering:
    """Each piece of the form is tokenised for itself, so that segments end between tokens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    @property
    def name(self) -> str:
        return f"plain text, {self._tokenizer.name}"

    @property
    def limits(self) -> str:
        return " ".join(filter(None, (LIMITS, self._tokenizer.limits)))

    def prompt(self, prompt: ChatPrompt | TextPrompt) -> Rendered:
        if isinstance(prompt, TextPrompt):
            return Rendered(self._tokenizer.encode(prompt.text))
        pieces = list(_pieces(prompt))
        ids = [self._tokenizer.encode(piece.text) for piece in pieces]
        return Rendered(np.concatenate(ids), tuple(_segments(pieces, ids)))

    def reply(self, prompt: ChatPrompt | TextPrompt, reply: Json | str) -> Symbols:
        if isinstance(prompt, TextPrompt):
            return self._tokenizer.encode(_text_of(reply))
        message = {"content": reply} if isinstance(reply, str) else reply
        thinking = message.get("reasoning_content")
        pieces = [f"<think>\n{thinking}\n</think>\n\n"] if thinking else []
        pieces += [piece.text for piece in _body(0, message)]
        return np.concatenate([self._tokenizer.encode(text) for text in pieces])

    def decode(self, symbols: Sequence[int] | Symbols) -> str:
        return self._tokenizer.decode(symbols)


class _Piece(NamedTuple):
    text: str
    message: int
    field: str


def _pieces(prompt: ChatPrompt) -> Iterator[_Piece]:
    if prompt.tools:
        yield _Piece("<|tools|>\n", *TEMPLATE)
        for tool in prompt.tools:
            yield _Piece(compact(tool) + "\n", -1, "tools")
        yield _Piece(END, *TEMPLATE)
    for index, message in enumerate(prompt.messages):
        yield _Piece(_header(message), *TEMPLATE)
        yield from _body(index, message)
    yield _Piece("<|assistant|>\n", *TEMPLATE)


def _header(message: Json) -> str:
    """A tool's name is in the call already; another name tells who speaks."""
    role, name = message["role"], message.get("name")
    return f"<|{role} {name}|>\n" if name and role != "tool" else f"<|{role}|>\n"


def _body(index: int, message: Json) -> Iterator[_Piece]:
    content, calls = message.get("content") or "", message.get("tool_calls") or ()
    yield _Piece(content, index, "content")
    for call in calls:
        yield _Piece(f"\n{call_text(call)}", index, "tool_calls")
    yield _Piece(END, *TEMPLATE)


def call_text(call: Json) -> str:
    """A tool call in one line; arguments stand as the model wrote them."""
    function = call["function"]
    return f'{{"name": {compact(function["name"])}, "arguments": {function["arguments"]}}}'


def _text_of(reply: Json | str) -> str:
    if isinstance(reply, str):
        return reply
    calls = [call_text(call) for call in reply.get("tool_calls") or ()]
    return "\n".join(filter(None, (reply.get("content"), *calls)))


def _segments(pieces: list[_Piece], ids: list[Symbols]) -> Iterator[Segment]:
    """Neighbours from the same part of the request are one."""
    stop = 0
    sizes = ((piece[1:], len(part)) for piece, part in zip(pieces, ids) if len(part))
    for (message, field), group in groupby(sizes, key=lambda size: size[0]):
        start, stop = stop, stop + sum(length for _, length in group)
        yield Segment(start, stop, message, field)
