"""GGUF files: converted once to a Hugging Face folder, found again by the sha256 of the file.

One process converts while others wait for its lock, and the folder appears by a rename: what lies at
its place is complete. It is checked against its manifest whenever it is used, and converted again
when it does not fit.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from filelock import FileLock, Timeout

from kvtool.errors import KVToolError, ModelError
from kvtool.models.digest import Progress, combine, file_digest, models_dir
from kvtool.models.manifest import fault, moved, write_manifest
from kvtool.models.quiet import quiet

if TYPE_CHECKING:
    from gguf import GGUFReader

CONVERTER = 1  # raise it when the same file would convert to something else


class Conversion(NamedTuple):
    path: Path
    digest: str  # identity of the weights: the GGUF file and the converter


def converted(path: Path, progress: Progress | None = None) -> Conversion:
    """The folder that `path` was converted to, converting it when it is absent or damaged.

    Raises `ModelError` for a file that is damaged or not supported.
    """
    sha256 = file_digest(path, progress)
    target = models_dir() / sha256
    about = {"converter": CONVERTER, "sha256": sha256}
    if fault(target, about, progress):
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(progress):
            if reason := fault(target, about, progress):
                if progress:
                    progress(_announcement(path, target, reason))
                _convert_into(target, path, about)
    return Conversion(target, combine([b"gguf", sha256.encode(), str(CONVERTER).encode()]))


@contextlib.contextmanager
def _alone(progress: Progress | None) -> Iterator[None]:
    lock = FileLock(models_dir() / "conversion.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if progress:
            progress("Waiting for another process, which converts a model")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _announcement(path: Path, target: Path, reason: str) -> str:
    if target.exists():
        return f"Converting {path.name} again to {target}: {reason}"
    return f"Converting {path.name} (once) to {target}"


def _convert_into(target: Path, path: Path, about: Mapping[str, Any]) -> None:
    """The caller holds the lock, so an unfinished folder belongs to a process that died."""
    for leftover in target.parent.glob("*.part"):
        shutil.rmtree(leftover, ignore_errors=True)
    unfinished = target.with_suffix(".part")
    unfinished.mkdir()
    try:
        with quiet(), _explained(path, target.parent):
            write_folder(path, unfinished)
            write_manifest(unfinished, about)
        _remove(target)
        unfinished.rename(target)
        moved(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _remove(target: Path) -> None:
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target, ignore_errors=True)
    else:
        target.unlink(missing_ok=True)


@contextlib.contextmanager
def _explained(path: Path, folder: Path) -> Iterator[None]:
    """Libraries meet damaged metadata with errors of every type, and a full disk as well."""
    try:
        yield
    except (KVToolError, MemoryError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or "no reason given"
        if isinstance(error, OSError) or "os error" in reason:  # how Rust libraries print theirs
            raise _no_room(path, folder, reason) from error
        raise ModelError(
            f"{path} is damaged or of an unknown form: {type(error).__name__}: {reason:.200}.",
            hint="Download or copy the file again.",
        ) from error


def _check_room(path: Path, folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise _no_room(path, folder.parent, f"it needs {_mib(needed)}, {_mib(free)} are free")


def _no_room(path: Path, folder: Path, reason: str) -> ModelError:
    return ModelError(
        f"The converted {path.name} cannot be stored in {folder}: {reason}.",
        hint="Free space there, or let XDG_CACHE_HOME name a folder with more.",
    )


def _mib(size: int) -> str:
    return f"{-(-size // 2**20)} MiB"


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
    tables = int(reader.data_offset)  # bytes of metadata, most of it the vocabulary
    _check_room(path, folder, sum(weight.nbytes for weight in weights.values()) + 2 * tables)
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
