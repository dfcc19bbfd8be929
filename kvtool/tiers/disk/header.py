"""The header of a safetensors file: written by us, read from anybody.

Layout (safetensors format): the length of the header as a little-endian u64, a JSON object from
tensor name to dtype, shape and byte range, then the tensors back to back.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 1 << 20
ALIGNMENT = 64  # of the first tensor in the file
MAX_SIZE = 1 << 62  # of anything a file says about itself
_DTYPE_BYTES = {"U8": 1, "I32": 4, "F16": 2, "BF16": 2, "F32": 4}
_METADATA = "__metadata__"


class Damaged(Exception):
    """A file that is not what a writer of ours left. The text is a reason without a full stop."""


class Tensor(NamedTuple):
    """start: in the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape) * _DTYPE_BYTES[self.dtype]

    @property
    def stop(self) -> int:
        return self.start + self.num_bytes


class Header(NamedTuple):
    metadata: Mapping[str, str]
    tensors: Mapping[str, Tensor]
    num_bytes: int  # length field included: where the first tensor starts


def encode(
    metadata: Mapping[str, str], tensors: Sequence[tuple[str, str, tuple[int, ...]]]
) -> bytes:
    """Length field and header. tensors: name, dtype, shape, in the order they follow."""
    document: dict[str, object] = {_METADATA: dict(metadata)}
    offset = 0
    for name, dtype, shape in tensors:
        stop = offset + math.prod(shape) * _DTYPE_BYTES[dtype]
        document[name] = {"dtype": dtype, "shape": shape, "data_offsets": (offset, stop)}
        offset = stop
    text = json.dumps(document, separators=(",", ":")).encode()
    length = -(-(LENGTH_BYTES + len(text)) // ALIGNMENT) * ALIGNMENT - LENGTH_BYTES
    return length.to_bytes(LENGTH_BYTES, "little") + text.ljust(length)


def header_bytes(length_field: bytes, file_bytes: int) -> int:
    """Length field and header together; `Damaged` where that cannot be."""
    if len(length_field) < LENGTH_BYTES:
        raise Damaged(f"the file has only {file_bytes} bytes")
    size = LENGTH_BYTES + int.from_bytes(length_field, "little")
    if size > min(file_bytes, MAX_HEADER_BYTES):
        raise Damaged(f"a header of {size} bytes in a file of {file_bytes}")
    return size


def parse(data: bytes, file_bytes: int) -> Header:
    """data: length field and header. Tensors tile the rest of the file, or it is `Damaged`."""
    try:
        document = json.loads(data[LENGTH_BYTES:], object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:  # bad JSON, bad UTF-8, an endless number
        raise Damaged("the header is not JSON") from error
    if not isinstance(document, dict):
        raise Damaged("the header is not a JSON object")
    metadata = document.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise Damaged("the metadata is not text")
    tensors: dict[str, Tensor] = {}
    end = len(data)
    for name, entry in document.items():
        tensors[name] = _tensor(name, entry, len(data), end)
        end = tensors[name].stop
    if end != file_bytes:
        raise Damaged(f"the file has {file_bytes} bytes, its header says {end}")
    return Header(metadata, tensors, len(data))


def _tensor(name: str, entry: object, data_start: int, start: int) -> Tensor:
    match entry:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [int(first), int(last)]}:
            if dtype in _DTYPE_BYTES and len(shape) <= 8 and all(_is_size(n) for n in shape):
                tensor = Tensor(dtype, tuple(shape), start)
                if (data_start + first, data_start + last) == (start, tensor.stop):
                    return tensor
    raise Damaged(f"tensor {name[:40]!r} has no proper dtype, shape or place")


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_SIZE


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a name stands twice")
    return document
