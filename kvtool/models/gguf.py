"""GGUF files: converted once to a Hugging Face folder, found again by the sha256 of the file.

One process converts while others wait for its lock, and the folder appears by a rename: what lies at
its place is complete.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from filelock import FileLock

from kvtool.errors import ModelError
from kvtool.models.digest import Progress, combine, file_digest, models_dir
from kvtool.models.quiet import quiet

if TYPE_CHECKING:
    from gguf import GGUFReader

CONVERTER = 1  # raise it when the same file would convert to something else
RECORD = "kvtool.json"


class Conversion(NamedTuple):
    path: Path
    digest: str  # identity of the weights: the GGUF file and the converter


def converted(path: Path, progress: Progress | None = None) -> Conversion:
    """The folder that `path` was converted to, converting it first if that never happened.

    Raises `ModelError` for a file that is damaged or not supported.
    """
    sha256 = file_digest(path, progress)
    target = models_dir() / sha256
    digest = combine([b"gguf", sha256.encode(), str(CONVERTER).encode()])
    if not _is_current(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(models_dir() / "conversion.lock"):
            if not _is_current(target):
                if progress:
                    progress(f"Converting {path.name} (once) to {target}")
                _convert_into(target, path)
    return Conversion(target, digest)


def _is_current(folder: Path) -> bool:
    try:
        record = json.loads((folder / RECORD).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return bool(record.get("converter") == CONVERTER)


def _convert_into(target: Path, path: Path) -> None:
    """The caller holds the lock, so an unfinished folder belongs to a process that died."""
    for leftover in target.parent.glob("*.part"):
        shutil.rmtree(leftover, ignore_errors=True)
    unfinished = target.with_suffix(".part")
    unfinished.mkdir()
    try:
        with quiet():
            write_folder(path, unfinished)
        record = {"converter": CONVERTER, "source": path.name, "sha256": target.name}
        (unfinished / RECORD).write_text(json.dumps(record), "utf-8")
        shutil.rmtree(target, ignore_errors=True)
        unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def write_folder(path: Path, folder: Path) -> None:
    """Write config.json, generation_config.json, model.safetensors and the tokenizer's files."""
    from safetensors.torch import save_file

    from kvtool.models.gguf_config import eos_token_ids, model_config
    from kvtool.models.gguf_tokenizer import write_tokenizer
    from kvtool.models.gguf_weights import model_weights

    reader = _open(path)
    metadata = {name: field.contents() for name, field in reader.fields.items()}
    config = model_config(path, metadata, reader.tensors)
    weights = model_weights(path, str(metadata["general.architecture"]), reader.tensors, config)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config["dtype"] = str(next(iter(weights.values())).dtype).removeprefix("torch.")
    _write_json(folder / "config.json", config)
    _write_json(folder / "generation_config.json", {"eos_token_id": eos_token_ids(metadata)})
    write_tokenizer(path, metadata, folder)
    for file in folder.iterdir():
        file.chmod(0o644)


def _open(path: Path) -> GGUFReader:
    from gguf import GGUFReader

    try:
        return GGUFReader(path)
    except (ValueError, IndexError, KeyError, OverflowError, UnicodeDecodeError) as error:
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise ModelError(
                    f"{path} is not a GGUF file: it does not begin with GGUF."
                ) from None
        raise ModelError(
            f"{path} is damaged or cut short ({path.stat().st_size} bytes): {error}.",
            hint="Download or copy the file again.",
        ) from error


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", "utf-8")
