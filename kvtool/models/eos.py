"""Which tokens end a reply: the union of every source, because each of them alone is often wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvtool.errors import ModelError
from kvtool.models.json_file import read_json


def eos_ids(folder: Path, config: Mapping[str, Any], tokenizer_eos: int | None) -> frozenset[int]:
    """From config.json (also its text_config), generation_config.json and the tokenizer.

    Each may be missing, null, one id or a list.
    """
    text_config = config.get("text_config")
    sources = [
        config.get("eos_token_id"),
        text_config.get("eos_token_id") if isinstance(text_config, Mapping) else None,
        _read_generation_config(folder).get("eos_token_id"),
        tokenizer_eos,
    ]
    return frozenset().union(*(_ids(source) for source in sources))


def _ids(value: Any) -> frozenset[int]:
    if value is None:
        return frozenset()
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(item, int) and item >= 0 for item in values):
        raise ModelError(f"eos_token_id is {value!r}; it must be a token id or a list of them.")
    return frozenset(values)


def _read_generation_config(folder: Path) -> Mapping[str, Any]:
    path = folder / "generation_config.json"
    if not path.is_file():
        return {}
    content = read_json(path)
    return content if isinstance(content, dict) else {}
