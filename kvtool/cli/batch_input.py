"""One request a line: what `--batch` reads.

A line is an object with `prompt` (text, or token ids) or, as in the OpenAI Batch format, a `body`
with `messages`; `custom_id` is handed back and need not be unique. Fields that a request cannot
have are refused, not ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kvtool.cli.boundary import unforeseen
from kvtool.cli.messages import parse_messages
from kvtool.cli.parsers import MAX_INTEGER
from kvtool.cli.text import check_text, decode_utf8, read_bytes
from kvtool.errors import InputError, KVToolError
from kvtool.json_input import parse_json
from kvtool.models.chat import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLine:
    """sampling: fields of SamplingParams that the line sets itself."""

    line: int
    custom_id: object
    messages: list[Message] | None = None
    token_ids: list[int] | None = None
    raw: bool | None = None
    salt: str | None = None
    sampling: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BadLine:
    line: int
    custom_id: object
    error: KVToolError


def read_batch(path: str) -> list[BatchLine | BadLine]:
    """The lines of a file, or of stdin for `-`; raises `InputError` when there are none."""
    lines = read_lines(read_bytes(path))
    if not lines:
        raise InputError(
            f"{path} holds no requests.", hint='One request a line: {"prompt": "Hello"}'
        )
    return lines


def read_lines(data: bytes) -> list[BatchLine | BadLine]:
    """Blank lines are skipped, a BOM and CRLF are fine; numbering starts at 1."""
    numbered = enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1)
    return [_read_line(number, line) for number, line in numbered if line.strip()]


def _read_line(number: int, data: bytes) -> BatchLine | BadLine:
    custom_id: object = None
    try:
        request = parse_json(decode_utf8(data, f"line {number}"), f"line {number}")
        if not isinstance(request, dict):
            raise InputError("The line is not an object.", hint='{"prompt": "Hello"}')
        custom_id = request.get("custom_id")
        return _parse(number, custom_id, request)
    except KVToolError as error:
        return BadLine(number, custom_id, error)
    except Exception as error:  # whatever one line does, the others go on
        return BadLine(number, custom_id, unforeseen(error))


def _parse(number: int, custom_id: object, request: dict[str, Any]) -> BatchLine:
    fields = _fields(request)
    if "adapter" in fields:
        raise InputError("adapter is not available in this version.", hint="Remove the field.")
    unknown = [name for name in fields if name not in (*CONTENT, *FIELDS)]
    if unknown:
        allowed = ", ".join([*CONTENT, *FIELDS])
        raise InputError(f"The field {unknown[0]!r} is unknown; allowed: {allowed}.")
    values = {}
    for name, (field, read) in FIELDS.items():
        if name in fields:
            values[field] = read(name, fields[name])
    return BatchLine(
        line=number,
        custom_id=custom_id,
        raw=values.pop("raw", None),
        salt=values.pop("salt", None),
        sampling=values,
        **_content(fields),
    )


def _fields(request: dict[str, Any]) -> dict[str, Any]:
    """The line's own fields and those of its body; null is as good as absent."""
    body = request.get("body")
    if not isinstance(body, dict | None):
        raise InputError("body is not an object.")
    outside = _present((k, v) for k, v in request.items() if k not in ENVELOPE)
    inside = _present((body or {}).items())
    twice = [name for name in inside if name in outside]
    if twice:
        raise InputError(f"{twice[0]} is given twice: in the line and in its body.")
    return outside | inside


def _present(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in fields if name not in IGNORED and value is not None}


def _content(fields: dict[str, Any]) -> dict[str, Any]:
    if ("prompt" in fields) == ("messages" in fields):
        raise InputError("A line has either prompt or messages.", hint='{"prompt": "Hello"}')
    if "messages" in fields:
        return {"messages": parse_messages(fields["messages"], "messages")}
    prompt = fields["prompt"]
    if not prompt:
        raise InputError("The prompt is empty.", hint="Give at least one character of text.")
    if isinstance(prompt, str):
        return {"messages": [{"role": "user", "content": check_text(prompt, "prompt")}]}
    if isinstance(prompt, list) and all(type(token) is int for token in prompt):
        return {"token_ids": prompt}
    raise InputError("prompt is neither text nor a list of token ids.")


def _whole(name: str, value: object) -> int:
    if type(value) is not int or abs(value) > MAX_INTEGER:
        raise InputError(f"{name} is {value!r:.80}; it must be a whole number below 2**63.")
    return value


def _number(name: str, value: object) -> float:
    if type(value) is float:
        return value
    if type(value) is int and abs(value) <= MAX_INTEGER:
        return float(value)
    raise InputError(f"{name} is {value!r:.80}; it must be a number of usual size.")


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{name} is {value!r:.80}; it must be true or false.")
    return value


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name} is {value!r:.80}; it must be text.")
    return check_text(value, name)


def _stop(name: str, value: object) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else [value]
    if "" in listed:
        raise InputError(f"{name} is empty text, which no reply could go on behind.")
    return tuple(_text(name, item) for item in listed)


def _logit_bias(name: str, value: object) -> dict[int, float]:
    if not isinstance(value, dict) or not all(map(_TOKEN_ID.fullmatch, value)):
        raise InputError(f'{name} is {value!r:.80}; it must be an object such as {{"42": -100}}.')
    return {int(token): _number(name, bias) for token, bias in value.items()}


def _seed(name: str, value: object) -> int:
    if _whole(name, value) < 0:
        raise InputError(f"{name} is {value}; it must be 0 or more.")
    return _whole(name, value)


_TOKEN_ID = re.compile("[0-9]{1,18}")

ENVELOPE = ("custom_id", "method", "url", "body")
IGNORED = ("model", "user", "metadata", "store")  # say nothing about the reply
CONTENT = ("prompt", "messages")

# field of a line -> field of BatchLine or SamplingParams, and how its value is read
FIELDS: dict[str, tuple[str, Callable[[str, object], Any]]] = {
    "raw": ("raw", _flag),
    "salt": ("salt", _text),
    "max_tokens": ("max_tokens", _whole),
    "max_completion_tokens": ("max_tokens", _whole),
    "temperature": ("temperature", _number),
    "top_p": ("top_p", _number),
    "top_k": ("top_k", _whole),
    "min_p": ("min_p", _number),
    "repetition_penalty": ("repetition_penalty", _number),
    "logit_bias": ("logit_bias", _logit_bias),
    "stop": ("stop", _stop),
    "ignore_eos": ("ignore_eos", _flag),
    "logprobs": ("logprobs", _whole),
    "seed": ("seed", _seed),
}
