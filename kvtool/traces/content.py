"""The content of a message as text, whichever way it was written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import xxhash

from kvtool.traces.read_log import BadRecord
from kvtool.traces.record import shown


def content_text(content: object) -> str:
    """Text; null, missing and [] are ""; parts are joined. Raises `BadRecord`."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return part_text(content)
    if isinstance(content, list | tuple):
        return "".join(part_text(part) for part in content)
    raise BadRecord("content must be text, null or a list of parts", f"it is {shown(content)}")


def part_text(part: object) -> str:
    """A part that is no text (an image, a file) stands as its kind and a digest: equal parts stay
    equal, their number of tokens is not known."""
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        raise BadRecord("a content part must be an object or text", f"it is {shown(part)}")
    for name in ("text", "content", "refusal"):
        if isinstance(part.get(name), str):
            return str(part[name])
    return f"[{part.get('type', 'part')} {xxhash.xxh3_64_hexdigest(compact(part).encode())}]"


def is_opaque(content: object) -> bool:
    """Whether `content_text` has a placeholder for some of it."""
    return isinstance(content, list | tuple) and any(
        isinstance(part, Mapping)
        and not any(isinstance(part.get(name), str) for name in ("text", "content", "refusal"))
        for part in content
    )


def compact(value: Any) -> str:
    """JSON text in the order given, as one writes it into a prompt."""
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
