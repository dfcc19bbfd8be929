"""JSON that others wrote: damage and nesting without end are refused before anything walks it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kvtool.errors import ModelError
from kvtool.nesting import MAX_DEPTH, is_too_deep


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
