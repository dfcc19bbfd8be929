"""Text from files and stdin: UTF-8, checked, with one rule for the newline at the end.

A BOM at the start and exactly one newline at the end (`\\n` or `\\r\\n`) are dropped; everything
else is kept as it is, because it changes the tokens and with them the cache key.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kvtool.errors import InputError

STDIN = "-"


def named(path: str) -> str:
    """What people call it."""
    return "stdin" if path == STDIN else path


def read_text(path: str) -> str:
    """The text of a file, or of stdin for `-`; raises `InputError`."""
    text = decode_utf8(read_bytes(path), named(path))
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text


def read_bytes(path: str) -> bytes:
    if path == STDIN and sys.stdin is None:
        raise InputError("stdin is closed.", hint="Give the path of a file, or pipe the text in.")
    try:
        return sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
    except (OSError, ValueError) as error:  # the latter: a NUL byte in the name
        raise InputError(
            f"Cannot read {path!r}: {getattr(error, 'strerror', None) or error}.",
            hint="Give the path of a readable file, or - for stdin.",
        ) from None


def decode_utf8(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{where} is not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}.",
            hint="Convert it first: iconv -f ENCODING -t UTF-8",
        ) from None


def check_text(text: str, where: str) -> str:
    """The text itself; raises `InputError` for a lone surrogate, which no encoding can carry."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"{where} holds a lone surrogate U+{ord(text[error.start]):04X} "
            f"at character {error.start}; text must be valid Unicode."
        ) from None
    return text
