"""The safetensors files of a model folder, checked before anything is loaded (no torch).

The index is the authority: a tensor is read from the file that the index names, every named file
must be there and whole, and other weight files in the folder are ignored.
"""

from __future__ import annotations

import json
import logging
import math
import reprlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvtool.errors import ModelError

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"

_BITS = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "C64": 64}
_BITS |= {f"{kind}{bits}": bits for kind in "IUF" for bits in (16, 32, 64)}
_BITS |= {"I8": 8, "U8": 8, "BF16": 16}
_BITS |= {f"F8_{kind}": 8 for kind in ("E4M3", "E5M2", "E8M0", "E4M3FNUZ", "E5M2FNUZ")}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Name of every tensor to the safetensors file that holds it, and to its shape."""

    tensors: Mapping[str, Path]
    shapes: Mapping[str, tuple[int, ...]]

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(sorted(set(self.tensors.values())))


def open_checkpoint(folder: Path) -> Checkpoint:
    """Raises `ModelError` that names the files which are missing, cut short or not safetensors."""
    index = folder / INDEX
    single = folder / SINGLE
    if index.is_file():
        tensors = _indexed(folder, index)
        headers = {path: read_header(path) for path in sorted(set(tensors.values()))}
        _check_index_agrees(tensors, headers)
    elif single.is_file():
        headers = {single: read_header(single)}
        tensors = dict.fromkeys(headers[single], single)
    else:
        raise _no_weights(folder)
    _warn_of_strays(folder, {path.name for path in tensors.values()})
    shapes = {name: tuple(headers[path][name]["shape"]) for name, path in tensors.items()}
    return Checkpoint(tensors, shapes)


def read_header(path: Path) -> dict[str, Any]:
    """Tensor name to `{dtype, shape, data_offsets}`.

    The layout is 8 bytes of header length, the header as JSON, then the data of one tensor after
    the other, so the last offset tells how long the file has to be.
    """
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if 8 + length > size:
                raise _damaged(path, f"its header says {length} bytes, the file has {size}")
            header = dict(json.loads(file.read(length)))
        header.pop("__metadata__", None)
    except (struct.error, ValueError, TypeError, RecursionError) as error:
        raise _damaged(path, "it does not begin with a safetensors header") from error
    end = 8 + length + _check_tensors(path, header)
    if size != end:
        raise _damaged(path, f"it has {size} bytes, its header says {end}")
    return header


def _check_tensors(path: Path, header: Mapping[str, Any]) -> int:
    """Bytes of data; every tensor has to begin where the one before it ends."""
    for name, tensor in header.items():
        if not _is_consistent(tensor):
            raise _damaged(path, f"its header describes {name!r:.80} as {reprlib.repr(tensor)}")
    end = 0
    for name, tensor in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        start, stop = tensor["data_offsets"]
        if start != end:
            raise _damaged(path, f"the data of {name!r:.80} begin at {start}, expected {end}")
        end = stop
    return end


def _is_consistent(tensor: Any) -> bool:
    """Whether type, shape and offsets are what they should be and tell the same size."""
    try:
        numbers = [*tensor["shape"], *tensor["data_offsets"]]
        start, stop = tensor["data_offsets"]
        bits = _BITS[tensor["dtype"]]
    except (TypeError, KeyError, ValueError):
        return False
    if not all(type(number) is int and number >= 0 for number in numbers):
        return False
    return bool(math.prod(tensor["shape"]) * bits == (stop - start) * 8)


def _indexed(folder: Path, index: Path) -> dict[str, Path]:
    try:
        weight_map = json.loads(index.read_text("utf-8"))["weight_map"]
        tensors = {name: folder / Path(file).name for name, file in weight_map.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ModelError(
            f"{index} is not a weight index: it needs a JSON object with weight_map."
        ) from error
    files = sorted(set(tensors.values()))
    if missing := [file.name for file in files if not file.is_file()]:
        raise ModelError(
            f"{folder} lacks {len(missing)} of the {len(files)} weight files that its index names: "
            f"{', '.join(missing[:5])}.",
            hint="Download the model again; an interrupted download leaves such a folder.",
        )
    return tensors


def _check_index_agrees(tensors: dict[str, Path], headers: dict[Path, dict[str, Any]]) -> None:
    absent = [name for name, file in tensors.items() if name not in headers[file]]
    if absent:
        file = tensors[absent[0]]
        raise ModelError(
            f"{len(absent)} tensors are not in the file that the index names, "
            f"first {absent[0]} in {file}.",
            hint="Download the model again; index and weight files are of different versions.",
        )


def _warn_of_strays(folder: Path, used: set[str]) -> None:
    strays = sorted(p.name for p in folder.glob("*.safetensors") if p.name not in used)
    if strays:
        _log.warning("%s: weight files not in the index are ignored: %s", folder, ", ".join(strays))


def _damaged(path: Path, why: str) -> ModelError:
    return ModelError(
        f"{path} is damaged: {why}.",
        hint="Download or copy the file again; it was probably cut short.",
    )


def _no_weights(folder: Path) -> ModelError:
    pickles = sorted(p.name for p in folder.glob("*.bin")) + sorted(
        p.name for p in folder.glob("*.pt*")
    )
    if pickles:
        return ModelError(
            f"{folder} holds only pickled weights ({', '.join(pickles[:3])}); "
            "kvtool loads safetensors, because a pickle can run code.",
            hint="Load it once with transformers and write it again with save_pretrained().",
        )
    return ModelError(f"{folder} has no weights: neither {SINGLE} nor {INDEX}.")
