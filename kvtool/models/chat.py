"""Messages to the text that a model's chat template makes of them."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kvtool.errors import InputError, KVToolError, ModelError
from kvtool.nesting import MAX_DEPTH, is_too_deep

Message = Mapping[str, Any]
Render = Callable[[list[Message]], str]


def normalized(messages: Sequence[Message]) -> list[Message]:
    """Content is always text: null, missing and [] are "", text parts are joined.

    Arguments of tool calls become objects, as templates expect them, where they are JSON text.
    Raises `InputError` that names the message.
    """
    if not messages:
        raise InputError("There are no messages; at least one is needed.")
    return [_normalized(message, index) for index, message in enumerate(messages)]


def render_checked(render: Render, messages: list[Message]) -> str:
    """`render(messages)`; what the template raises becomes one line that names the message."""
    try:
        return render(messages)
    except Exception as error:
        raise _explained(error, render, messages) from error


def _normalized(message: Message, index: int) -> Message:
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise InputError(f"message {index} must be an object with a role, not {_shown(message)}.")
    result = {**message, "content": _text(message.get("content"), index)}
    if message.get("tool_calls"):
        result["tool_calls"] = _tool_calls(message["tool_calls"], index)
    if is_too_deep(result):
        raise InputError(f"message {index} is nested too deep; allowed: {MAX_DEPTH} levels.")
    return result


def _text(content: object, index: int) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "".join(_part(part, index) for part in content)
    raise InputError(
        f"message {index} has content {_shown(content)}; allowed: text, null, text parts."
    )


def _part(part: object, index: int) -> str:
    if isinstance(part, Mapping) and isinstance(part.get("text"), str):
        return str(part["text"])
    raise InputError(f"message {index} has a content part {_shown(part)}; allowed: text parts.")


def _tool_calls(calls: object, index: int) -> list[Any]:
    if isinstance(calls, list | tuple) and all(isinstance(call, Mapping) for call in calls):
        return [_tool_call(call) for call in calls]
    raise InputError(f"message {index} has tool_calls {_shown(calls)}; allowed: a list of objects.")


def _tool_call(call: Mapping[str, Any]) -> Mapping[str, Any]:
    function = call.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"])
    except (ValueError, RecursionError):
        return call
    return {**call, "function": {**function, "arguments": arguments}}


def _shown(value: object) -> str:
    return reprlib.repr(value)[:80]  # the full text of a value nested without end does not exist


def _explained(error: Exception, render: Render, messages: list[Message]) -> KVToolError:
    from jinja2 import TemplateSyntaxError

    reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    if isinstance(error, TemplateSyntaxError):
        return ModelError(
            f"The model's chat template has a mistake in line {error.lineno}: {reason}.",
            hint="Add --raw to go without the template.",
        )
    index = _first_refused(render, messages)
    role = messages[index]["role"]
    return InputError(
        f"message {index} (role {role!r}) does not fit the model's chat template: {reason}.",
        hint="Change the message, or add --raw to go without the template.",
    )


def _first_refused(render: Render, messages: list[Message]) -> int:
    """The message behind the longest beginning of the conversation that does render."""
    for length in range(len(messages) - 1, 0, -1):
        try:
            render(messages[:length])
        except Exception:
            continue
        return length
    return 0
