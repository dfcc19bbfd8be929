"""The metadata of a GGUF file, read in milliseconds: arrays of text (the vocabulary) are skipped.

Layout: "GGUF", version, tensor count, pair count, then pairs of key, type and value; all numbers
little-endian (GGUF specification, version 2 and 3).
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any, BinaryIO

from kvtool.errors import ModelError

_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_TEXT, _ARRAY = 8, 9
_MAX_TEXT = 1 << 24  # bytes; a longer one is a damaged file
_MAX_DEPTH = 4  # arrays in arrays; known keys have none


def read_metadata(path: Path) -> dict[str, Any]:
    """All pairs but arrays of text; `ModelError` when the file is no GGUF or is cut short."""
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ModelError(f"{path} is not a GGUF file.")
        try:
            version, _, num_pairs = struct.unpack("<IQQ", file.read(20))
            if version not in (2, 3):
                raise ModelError(f"{path} is GGUF version {version}; versions 2 and 3 are known.")
            return dict(_pair(file) for _ in range(num_pairs))
        except (struct.error, UnicodeDecodeError, KeyError, EOFError) as error:
            raise ModelError(f"The GGUF header of {path} is damaged or cut short.") from error


def _pair(file: BinaryIO) -> tuple[str, Any]:
    key = _text(file)
    return key, _value(file, _number(file, "I"))


def _value(file: BinaryIO, kind: int, depth: int = 0) -> Any:
    if kind == _TEXT:
        return _text(file)
    if kind != _ARRAY:
        return _number(file, _SCALARS[kind])
    inner, length = _number(file, "I"), _number(file, "Q")
    if inner == _TEXT:
        _skip_texts(file, length)
        return None
    if inner == _ARRAY:
        if depth == _MAX_DEPTH:
            raise EOFError("arrays nested too deeply")
        return [_value(file, inner, depth + 1) for _ in range(length)]
    size = length * struct.calcsize(_SCALARS[inner])
    if size > os.fstat(file.fileno()).st_size:
        raise EOFError(f"array of {size} bytes")
    data = file.read(size)
    return list(struct.unpack(f"<{length}{_SCALARS[inner]}", data))


def _number(file: BinaryIO, code: str) -> Any:
    return struct.unpack(f"<{code}", file.read(struct.calcsize(f"<{code}")))[0]


def _text(file: BinaryIO) -> str:
    return file.read(_text_length(file)).decode()


def _skip_texts(file: BinaryIO, count: int) -> None:
    """A vocabulary of 262,144 pieces; reading over them is faster than seeking."""
    read, length = file.read, struct.Struct("<Q").unpack
    for _ in range(count):
        read(min(length(read(8))[0], _MAX_TEXT))


def _text_length(file: BinaryIO) -> int:
    length: int = _number(file, "Q")
    if length > _MAX_TEXT:
        raise EOFError(f"text of {length} bytes")
    return length
