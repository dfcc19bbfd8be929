"""The elements of a JSON list, one after another, without holding the list."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TextIO

from kvtool.traces.read_log import BadRecord

CHUNK = 1 << 20  # characters
TAIL = 16  # a value cut off this near the end of what was read may go on: `tru`, `\u00`


def json_list(stream: TextIO) -> Iterator[str]:
    """The JSON text of each element. Memory: the longest element. Raises `BadRecord` where the
    text is no list of JSON values; elements before that were yielded."""
    window = _Window(stream)
    window.take("[")
    if window.peek() == "]":
        window.take("]")
    else:
        yield window.value()
        while window.peek() == ",":
            window.take(",")
            yield window.value()
        window.take("]")
    if window.peek():
        raise BadRecord("text after the end of the JSON list")


class _Window:
    """What was read of a stream and not yet taken."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.text = ""
        self.at = 0

    def more(self) -> bool:
        """Doubles what is held, so that a long value is parsed a logarithmic number of times."""
        rest = self.text[self.at :]
        chunk = self.stream.read(max(CHUNK, len(rest)))
        self.text, self.at = rest + chunk, 0
        return bool(chunk)

    def peek(self) -> str:
        """The next character that is no white space, "" at the end."""
        while True:
            while self.at < len(self.text) and self.text[self.at].isspace():
                self.at += 1
            if self.at < len(self.text) or not self.more():
                return self.text[self.at : self.at + 1]

    def take(self, character: str) -> None:
        if self.peek() != character:
            found = repr(self.peek()) if self.peek() else "the end of the file"
            raise BadRecord(f"{character!r} missing in the JSON list", f"there is {found}")
        self.at += 1

    def value(self) -> str:
        """The text of the value that starts here."""
        self.peek()
        while True:
            try:
                _, stop = _DECODER.raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                if _may_go_on(error, self.text) and self.more():
                    continue
                raise BadRecord("the record is not JSON", error.msg) from None
            except (RecursionError, ValueError):
                raise BadRecord("the record is not usable JSON") from None
            length = stop - self.at
            if stop > len(self.text) - TAIL and self.more():
                continue  # a number may go on: `0` of `0.5`
            start, self.at = self.at, self.at + length
            return self.text[start : self.at]


_DECODER = json.JSONDecoder()


def _may_go_on(error: json.JSONDecodeError, text: str) -> bool:
    return error.msg.startswith("Unterminated string") or error.pos >= len(text) - TAIL
