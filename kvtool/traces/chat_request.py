"""The body of a request to a chat, completions, responses or messages API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvtool.traces.content import content_text
from kvtool.traces.messages import message_of, messages_of
from kvtool.traces.read_log import BadRecord
from kvtool.traces.record import shown, text
from kvtool.traces.responses_items import instructions_of, messages_of_items
from kvtool.traces.tool_calls import tools_of
from kvtool.traces.trace_request import ChatPrompt, Json, TextPrompt
from kvtool.traces.usage import Usage, usage_of


class Reply(NamedTuple):
    """message: what the model answered, None where the log does not have it."""

    message: Json | str | None = None
    usage: Usage = Usage()


def prompt_of(body: Json) -> ChatPrompt | TextPrompt:
    """Raises `BadRecord` for a body without a prompt."""
    tools = tools_of(body.get("tools") or body.get("functions"))
    if body.get("messages") is not None:
        system = content_text(body.get("system"))  # Anthropic's is beside the messages
        head = ({"role": "system", "content": system},) if system else ()
        messages = (*head, *messages_of(body["messages"]))
    elif body.get("input") is not None:
        messages = (*instructions_of(body.get("instructions")), *_input(body["input"]))
    elif isinstance(body.get("prompt"), str) and body["prompt"]:
        return TextPrompt(body["prompt"])
    else:
        raise BadRecord("no messages", f"the record has {', '.join(sorted(map(str, body))[:8])}")
    if not messages:
        raise BadRecord("messages is empty")
    return ChatPrompt(messages, tools)


def reply_of(response: object, usage: Json | None = None) -> Reply:
    """Of a response body of any of these APIs; raises `BadRecord` for damaged counts.

    usage: where it is beside the response."""
    if isinstance(response, str) and response:
        return Reply(response, usage_of(usage or {}))
    if not isinstance(response, Mapping):
        return Reply(None, usage_of(usage or {}))
    written = response.get("usage")
    counts = usage_of(written if isinstance(written, Mapping) else usage or {})
    return Reply(_message(response), counts)


def _input(value: object) -> tuple[Json, ...]:
    if isinstance(value, str):
        return ({"role": "user", "content": value},)
    if isinstance(value, list):
        return messages_of_items(value)
    raise BadRecord("input must be text or a list of items", f"it is {shown(value)}")


def _message(response: Json) -> Json | str | None:
    if isinstance(choice := _first(response.get("choices")), Mapping):
        if isinstance(choice.get("message"), Mapping):
            return message_of({"role": "assistant", **choice["message"]})
        return text(choice, "text")
    if isinstance(response.get("output"), list):
        messages = messages_of_items(response["output"])
        return messages[-1] if messages else None
    if response.get("role") == "assistant":
        return message_of(response)
    return None


def _first(values: object) -> object:
    return values[0] if isinstance(values, list) and values else None
