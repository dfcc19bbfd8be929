"""Tool schemas, their keys, and arguments that are repeated, as they were first written.

A client that builds its tools from a set or a map gives equal schemas in another order each time.
Which order is best does not matter, only that it stays; so the first one stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from kvtool.advice.rewrite import Requests
from kvtool.advice.situation import Proposal, Situation
from kvtool.traces.trace_request import ChatPrompt, Json, TraceRequest

TITLE = "Keep tool schemas and their keys in one order"
WHY = (
    "The same tools are sent in different orders, or with their JSON keys in different orders, so "
    "prompts differ from their first tokens on."
)


def tool_order(situation: Situation) -> Iterator[Proposal]:
    """Tools, keys of schemas and arguments of repeated calls in the order first seen."""
    return situation.rewriting(in_first_order, TITLE, WHY)


def in_first_order(requests: Requests) -> Iterator[TraceRequest]:
    """Schemas that are equal as JSON get the text of the first of them, and tools stand in the
    order in which they were first seen. A call that is sent again, by its id, gets the arguments
    that it first had, where both are equal as JSON."""
    seen = _Seen()
    for request in requests():
        prompt = request.prompt
        if not isinstance(prompt, ChatPrompt):
            yield request
            continue
        tools, messages = seen.tools(prompt.tools), seen.messages(prompt.messages)
        if isinstance(request.reply, dict):
            seen.messages((request.reply,))
        if _same_text((tools, messages), prompt):
            yield request
        else:
            yield replace(request, prompt=ChatPrompt(messages, tools))


@dataclass(slots=True)
class _Seen:
    ranks: dict[str, int] = field(default_factory=dict)
    schemas: dict[str, Json] = field(default_factory=dict)
    arguments: dict[tuple[str, str, str], str] = field(default_factory=dict)

    def tools(self, tools: tuple[Json, ...]) -> tuple[Json, ...]:
        same = [self.schemas.setdefault(_canonical(tool), tool) for tool in tools]
        ranks = self.ranks
        return tuple(sorted(same, key=lambda tool: ranks.setdefault(_name(tool), len(ranks))))

    def messages(self, messages: tuple[Json, ...]) -> tuple[Json, ...]:
        return tuple(
            {**message, "tool_calls": [self._call(call) for call in message["tool_calls"]]}
            if message.get("tool_calls")
            else message
            for message in messages
        )

    def _call(self, call: Json) -> Json:
        function, call_id = call["function"], call.get("id")
        arguments = _canonical_text(function["arguments"])
        if call_id is None or arguments is None:
            return call
        key = call_id, function["name"], arguments
        first = self.arguments.setdefault(key, function["arguments"])
        return {**call, "function": {**function, "arguments": first}}


def _name(tool: Json) -> str:
    return str((tool.get("function") or tool).get("name"))


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _canonical_text(arguments: str) -> str | None:
    """None: no JSON, or one whose text says more than its value (a key that is there twice)."""
    try:
        return _canonical(json.loads(arguments, object_pairs_hook=_once, parse_float=_as_written))
    except (ValueError, RecursionError):
        return None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)


def _as_written(number: str) -> dict[str, str]:
    return {"number": number}


def _same_text(one: tuple[Any, Any], prompt: ChatPrompt) -> bool:
    """Equal with the order of keys."""
    return json.dumps(one) == json.dumps((prompt.tools, prompt.messages))
