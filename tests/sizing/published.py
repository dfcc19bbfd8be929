"""Public checkpoints and engine logs with their sources (published.json)."""

import json
from pathlib import Path
from typing import Any

from kvtool.sizing.from_config import model_spec
from kvtool.sizing.model_spec import ModelSpec

_DATA = json.loads(Path(__file__).with_suffix(".json").read_text())
MODELS: list[dict[str, Any]] = _DATA["models"]
LOGS: list[dict[str, Any]] = _DATA["vllm_logs"]
LENGTHS = (1, 1024, 4096, 32768, 131072)


def spec(part_of_name: str) -> ModelSpec:
    found = [m for m in MODELS if part_of_name in m["model"]]
    assert len(found) == 1, part_of_name
    return model_spec(found[0]["config"], found[0]["model"])
