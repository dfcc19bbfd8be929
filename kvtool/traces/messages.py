"""Messages of a log in one form: OpenAI's, with text as content and no tool call lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvtool.traces.content import content_text
from kvtool.traces.read_log import BadRecord
from kvtool.traces.record import shown
from kvtool.traces.tool_calls import tool_call, tool_calls_of
from kvtool.traces.trace_request import Json

ROLES = {"human": "user", "gpt": "assistant", "ai": "assistant", "model": "assistant"} | {
    "function": "tool",
    "observation": "tool",
}
_KEPT = ("name", "tool_call_id", "reasoning_content")


def messages_of(messages: object) -> tuple[Json, ...]:
    """Raises `BadRecord` for anything that is not a list of messages with roles.

    Blocks of Anthropic's form are taken apart: a `tool_result` becomes a message of its own, a
    `tool_use` a tool call, thinking becomes `reasoning_content`.
    """
    if not isinstance(messages, list | tuple):
        raise BadRecord("messages must be a list", f"it is {shown(messages)}")
    return tuple(part for i, message in enumerate(messages) for part in _parts(message, i))


def message_of(message: object) -> Json:
    """One message, such as a reply."""
    return next(_parts(message, 0))


def assistant(content: str, calls: list[Json] | None = None, reasoning: str = "") -> Json:
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = calls
    if reasoning:
        message["reasoning_content"] = reasoning
    return message


def _parts(message: object, index: int) -> Iterator[Json]:
    if not isinstance(message, Mapping):
        raise BadRecord("a message must be an object", f"messages[{index}] is {shown(message)}")
    role = message.get("role")
    if not isinstance(role, str) or not role:
        raise BadRecord("a message has no role", f"messages[{index}]")
    role = ROLES.get(role, role)
    content = message.get("content")
    if isinstance(content, list) and any(_kind(block) in _BLOCKS for block in content):
        yield from _of_blocks(message, role, content)
    else:
        yield _message(message, role, content_text(content), tool_calls_of(message))


def _message(message: Json, role: str, content: str, calls: list[Json]) -> Json:
    kept = {key: message[key] for key in _KEPT if isinstance(message.get(key), str)}
    if "reasoning_content" not in kept and isinstance(reasoning := message.get("reasoning"), str):
        kept["reasoning_content"] = reasoning
    return {"role": role, "content": content, **({"tool_calls": calls} if calls else {}), **kept}


_BLOCKS = ("tool_use", "tool_result", "thinking", "redacted_thinking")


def _kind(block: object) -> object:
    return block.get("type") if isinstance(block, Mapping) else None


def _of_blocks(message: Json, role: str, blocks: list[Any]) -> Iterator[Json]:
    """Results come before the text of the same message, as in OpenAI's order of turns."""
    rest = [block for block in blocks if _kind(block) not in _BLOCKS]
    for block in blocks:
        if _kind(block) == "tool_result":
            result = {"role": "tool", "content": content_text(block.get("content"))}
            call_id = block.get("tool_use_id")
            yield {**result, "tool_call_id": str(call_id)} if call_id is not None else result
    uses = [block for block in blocks if _kind(block) == "tool_use"]
    calls = [tool_call(use.get("name"), use.get("input"), use.get("id")) for use in uses]
    thinking = "".join(str(b.get("thinking") or "") for b in blocks if _kind(b) == "thinking")
    if role == "assistant" or any(_kind(block) != "tool_result" for block in blocks):
        extra = {"reasoning_content": thinking} if thinking else {}
        yield _message({**message, **extra}, role, content_text(rest), calls)
