"""One request of a trace, in whatever format it was recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Json = Mapping[str, Any]


class Place(NamedTuple):
    """Where a request was read; line: of a file with one record a line, else the record, from 1.
    in_list: it is an element of a JSON list, whose lines say nothing."""

    file: str
    line: int
    in_list: bool = False

    def __str__(self) -> str:
        return f"{self.file}, record {self.line}" if self.in_list else f"{self.file}:{self.line}"


class ChatPrompt(NamedTuple):
    """messages: OpenAI's form (role, content as text, tool_calls, tool_call_id, name); tools: its
    tool schemas. Contents are text: parts were joined, null became ""."""

    messages: tuple[Json, ...]
    tools: tuple[Json, ...] = ()


class TextPrompt(NamedTuple):
    """The whole prompt as it was sent."""

    text: str


class BlockPrompt(NamedTuple):
    """hash_ids: one a block of the trace's block size, the last block perhaps partly filled, or a
    rest smaller than a block left without an id. block_size: tokens, where the trace states it."""

    hash_ids: tuple[int | str, ...]
    num_tokens: int
    block_size: int | None = None


class LengthPrompt(NamedTuple):
    """No identity: only questions of load have an answer."""

    num_tokens: int


Prompt = ChatPrompt | TextPrompt | BlockPrompt | LengthPrompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What the log says happened; None: it does not say.

    prompt_tokens: all of the prompt, cached ones included, whatever the format's own convention.
    cached_tokens: of the prompt, served from the provider's cache.
    """

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    ttft_s: float | None = None
    duration_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """id: unique in its trace. arrival_s: seconds since the trace's first request; None: the
    format has no times, or the request waits for others only.

    session: requests of one conversation. after: ids of requests that end before this one
    arrives; delay_s: how long after the last of them (a tool ran, a user typed).
    model, adapter, salt: requests share KV where all three are equal.
    reply: the assistant message that was recorded, or its text; None: unknown.
    scope: of hash ids that are local to a file or session: equal ids of different scopes differ.
    details: further fields worth showing, by their name in the format.
    """

    id: str
    place: Place
    prompt: Prompt
    arrival_s: float | None = None
    session: str | None = None
    after: tuple[str, ...] = ()
    delay_s: float = 0.0
    model: str | None = None
    adapter: str | None = None
    salt: str | None = None
    priority: int = 0
    output_tokens: int | None = None
    reply: Json | str | None = None
    scope: str = ""
    recorded: Recorded = field(default_factory=Recorded)
    details: Json = field(default_factory=dict)
