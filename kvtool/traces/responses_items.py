"""Items of OpenAI's Responses API, which Codex records, as chat messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kvtool.traces.content import content_text
from kvtool.traces.messages import assistant, messages_of
from kvtool.traces.read_log import BadRecord
from kvtool.traces.record import shown, text
from kvtool.traces.tool_calls import tool_call
from kvtool.traces.trace_request import Json

_OUTPUTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
MODEL_ITEMS = (
    "reasoning",
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "web_search_call",
)


def is_of_model(item: Json) -> bool:
    """Whether the model wrote this item."""
    return item.get("type") in MODEL_ITEMS or item.get("role") == "assistant"


def messages_of_items(items: Iterable[object]) -> tuple[Json, ...]:
    messages: list[Json] = []
    for item in items:
        add_item(messages, item)
    return tuple(messages)


def add_item(messages: list[Json], item: object) -> None:
    """Append an item. Calls and text of the model that follow each other are one message, which is
    replaced, never changed: others may hold it."""
    if not isinstance(item, Mapping):
        raise BadRecord("an item must be an object", f"it is {shown(item)}")
    kind = item.get("type", "message")
    if kind == "message":
        for message in messages_of([item]):
            _add(messages, message)
    elif kind in _OUTPUTS:
        _add(messages, _output(item))
    elif kind == "reasoning":
        summary = content_text(item.get("content") or item.get("summary"))
        if summary:
            _add(messages, assistant("", reasoning=summary))
    elif kind in MODEL_ITEMS:
        _add(messages, assistant("", [_call(item)]))


def _add(messages: list[Json], message: Json) -> None:
    if messages and message["role"] == messages[-1]["role"] == "assistant":
        messages[-1] = _joined(messages[-1], message)
    else:
        messages.append(message)


def _joined(earlier: Json, later: Json) -> Json:
    return assistant(
        "\n".join(filter(None, (earlier["content"], later["content"]))),
        [*earlier.get("tool_calls", ()), *later.get("tool_calls", ())],
        earlier.get("reasoning_content", "") + later.get("reasoning_content", ""),
    )


def _output(item: Json) -> Json:
    output = item.get("output")
    if isinstance(output, Mapping) and "content" in output:
        output = output["content"]
    result = {"role": "tool", "content": content_text(output)}
    call_id = text(item, "call_id", "id")
    return {**result, "tool_call_id": call_id} if call_id else result


def _call(item: Json) -> Json:
    name = item.get("name", str(item["type"]).removesuffix("_call"))
    arguments = item.get("arguments", item.get("input", item.get("action")))
    return tool_call(name, arguments, item.get("call_id"))


def instructions_of(value: object) -> tuple[Json, ...]:
    """The system message that `instructions` stand for: text, or an object with it."""
    written = value.get("text") if isinstance(value, Mapping) else value
    if not isinstance(written, str) or not written:
        return ()
    return ({"role": "system", "content": written},)
