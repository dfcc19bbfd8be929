"""Messages of a file or a batch line, checked before a model is loaded for them."""

from __future__ import annotations

from kvtool.cli.text import check_text
from kvtool.errors import InputError
from kvtool.json_input import type_name
from kvtool.models.chat import Message, normalized


def parse_messages(document: object, where: str) -> list[Message]:
    """A non-empty list of messages with text as content; raises `InputError`.

    Content may come as text, null, missing or a list of text parts; other fields (`tool_calls`,
    `name`, …) stay for the chat template.
    """
    if not isinstance(document, list):
        raise InputError(f"{where} must be a list of messages, not {type_name(document)}.")
    messages = normalized(document)
    for index, message in enumerate(messages):
        if not message["role"]:
            raise InputError(f"message {index} has an empty role.")
        check_text(message["role"] + message["content"], f"message {index}")
    return messages
