"""Where a model's description comes from: a folder, a config.json, a GGUF, stdin or the hub."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from kvtool.errors import ModelError
from kvtool.sizing import from_gguf
from kvtool.sizing.from_config import model_spec
from kvtool.sizing.model_spec import ModelSpec

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def read_model(source: str, revision: str | None = None) -> ModelSpec:
    """`ModelError` says what is missing; nothing but config.json is ever fetched from the hub."""
    if source == "-":
        return model_spec(_parse(_stdin(), "stdin"), "stdin")
    path = Path(source)
    try:
        if path.is_dir():
            return _from_folder(path)
        if path.is_file():
            return _from_file(path)
        if path.exists():  # a pipe can be read once
            return model_spec(_parse(_decode(path.read_bytes(), source), source), source)
    except OSError as error:
        raise ModelError(f"{source:.200} cannot be read: {error.strerror or error}.") from error
    if path.suffix in (".json", ".gguf") or not _HUB_ID.fullmatch(source):
        raise ModelError(f"{source} does not exist.", hint="give a folder, config.json or .gguf.")
    return model_spec(_parse(_download(source, revision), source), source)


def _from_folder(folder: Path) -> ModelSpec:
    config = folder / "config.json"
    if config.is_file():
        return model_spec(_parse(_text(config), str(config)), folder.name, _weights(folder))
    found = sorted(folder.glob("*.gguf"))
    if len(found) == 1:
        return from_gguf.model_spec(found[0])
    raise ModelError(f"{folder} has no config.json and {len(found)} GGUF files; name the file.")


def _from_file(path: Path) -> ModelSpec:
    with path.open("rb") as file:
        is_gguf = file.read(4) == b"GGUF" or path.suffix == ".gguf"
    if is_gguf:
        return from_gguf.model_spec(path)
    return model_spec(_parse(_text(path), str(path)), str(path))


def _weights(folder: Path) -> int | None:
    """Declared size, else the sum of the weight files; None when there are none."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        size = _parse(_text(index), str(index)).get("metadata", {}).get("total_size")
        if isinstance(size, int):
            return size
    files = list(folder.glob("*.safetensors")) or list(folder.glob("pytorch_model*.bin"))
    return sum(f.stat().st_size for f in files) or None


def _stdin() -> str:
    if sys.stdin is None:
        raise ModelError("stdin is closed.", hint="pipe a config.json in, or give its path.")
    return _decode(sys.stdin.buffer.read(), "stdin")


def _text(path: Path) -> str:
    return _decode(path.read_bytes(), str(path))


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ModelError(f"{name} is not UTF-8: {error.reason} at byte {error.start}.") from error


def _parse(text: str, name: str) -> dict[str, Any]:
    try:
        config = json.loads(text)
    except ValueError as error:
        raise ModelError(f"{name} is not JSON: {error}.") from error
    except RecursionError as error:
        raise ModelError(f"{name} is not a model's config: it is nested too deeply.") from error
    if not isinstance(config, dict):
        raise ModelError(f"{name} is not a JSON object.")
    return config


def _download(hub_id: str, revision: str | None) -> str:
    try:
        from huggingface_hub import hf_hub_download

        return _text(Path(hf_hub_download(hub_id, "config.json", revision=revision)))
    except (OSError, ValueError, ImportError) as error:
        reason = " ".join(str(error).split())[:160]
        raise ModelError(
            f"{hub_id} is neither a path nor a hub model that can be read now: {reason}",
            hint="download its config.json and give the file.",
        ) from error
