"""From the name a user gives to the files of a model (no torch unless a GGUF is converted)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvtool.errors import ConfigError, ModelError
from kvtool.models.checkpoint import Checkpoint, open_checkpoint
from kvtool.models.demo import demo_model
from kvtool.models.digest import Progress, weights_digest
from kvtool.models.gguf import converted
from kvtool.models.hub import snapshot
from kvtool.models.json_file import read_json

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """A Hugging Face folder whose files are complete.

    name: what to call the model in reports. weights_digest: identity of the weights; for a
    converted GGUF that of the GGUF file.
    """

    name: str
    path: Path
    config: dict[str, Any]
    checkpoint: Checkpoint
    weights_digest: str


def resolve(
    name: str | None, *, revision: str | None = None, progress: Progress | None = None
) -> ModelSource:
    """Folder, `.gguf` file, hub id, or `None` for the demo model; raises `ModelError`.

    A GGUF file is converted the first time (`kvtool.models.gguf`); `progress` gets a line about
    anything that takes long. Raises `ConfigError` for a revision of something local.
    """
    try:
        return _resolve(name, revision, progress)
    except OSError as error:
        what = f"{error.strerror or error}: {error.filename}" if error.filename else str(error)
        raise ModelError(f"{name or 'The demo model'} cannot be read or stored: {what}.") from error


def _resolve(name: str | None, revision: str | None, progress: Progress | None) -> ModelSource:
    path = Path(name).expanduser() if name is not None else demo_model()
    if revision is not None and path.exists():
        raise ConfigError(f"--revision {revision} needs a hub id; {path} is on this machine.")
    if name is None:
        return _from_gguf(path, progress)
    if path.is_dir():
        return _from_folder(path, name, progress)
    if path.is_file():
        if path.suffix.lower() == ".gguf":
            return _from_gguf(path, progress)
        raise ModelError(
            f"{name} is a file, but not a .gguf file.",
            hint="Give the folder that holds config.json, a .gguf file or a hub id.",
        )
    if _looks_like_path(name):
        raise ModelError(
            f"No model at {name!r}: no such file or folder.",
            hint="Give a model folder, a .gguf file or a hub id such as org/model.",
        )
    if progress:
        progress(f"Looking up {name} on the hub")
    return _from_folder(snapshot(name, revision), name, progress)


def _from_gguf(path: Path, progress: Progress | None) -> ModelSource:
    conversion = converted(path, progress)
    return _from_folder(conversion.path, path.name, progress, digest=conversion.digest)


def _from_folder(
    path: Path, name: str, progress: Progress | None, *, digest: str | None = None
) -> ModelSource:
    config = _read_config(path)
    checkpoint = open_checkpoint(path)
    return ModelSource(
        name=name,
        path=path,
        config=config,
        checkpoint=checkpoint,
        weights_digest=digest or weights_digest(checkpoint.files, progress),
    )


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        raise ModelError(
            f"{folder} is not a model folder: it has no config.json.",
            hint="Give a folder as written by save_pretrained(), a .gguf file or a hub id.",
        )
    config = read_json(path)
    if not isinstance(config, dict):
        raise ModelError(f"{path} holds {type(config).__name__}; it must be a JSON object.")
    return config


def _looks_like_path(name: str) -> bool:
    return (
        name.startswith((".", "/", "~", os.sep))
        or name.endswith((".gguf", os.sep))
        or _HUB_ID.fullmatch(name) is None
    )
