"""JSON that others wrote: damage and nesting without end are refused before anything walks it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvtool.errors import ModelError

MAX_DEPTH = 100  # far below what the recursion of a template or a serialiser can take


def read_json(path: Path) -> Any:
    """The content of one of a model's files; raises `ModelError`."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ModelError(f"{path} is not valid JSON: {error}.") from error
    except RecursionError:
        content = None
    else:
        if not is_too_deep(content):
            return content
    raise ModelError(f"{path} is nested more than {MAX_DEPTH} deep; it is damaged.")


def is_too_deep(value: Any) -> bool:
    """Whether objects and lists are nested more than `MAX_DEPTH` deep; does not recurse itself."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [child for item in level for child in _children(item)]
        if not level:
            return False
    return True


def _children(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []
