"""An approximate tokenizer for when no model is named: no files, no vocabulary, the same everywhere.

Text is cut into pieces about as long as those of a byte-pair vocabulary; each distinct piece gets
the next free id. Equal text has equal ids, and that is all that a question of reuse needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from kvtool.traces.encoding_memo import EncodingMemo
from kvtool.traces.prepared import Symbols

_PIECE = re.compile(
    r" ?[A-Z]{2,3}"
    r"| ?[A-Za-z][a-z]{0,8}"
    r"| ?[^\W\dA-Za-z_]{1,2}"  # letters of other scripts
    r"|\d{1,2}"
    r"| ?(?:[^\w\s]|_){1,3}"
    r"|\n+"
    r"|[^\S\n]{1,16}"
)
_CHUNK = 2048


class FallbackTokenizer:
    """One instance a trace: ids are given out in order of first appearance."""

    name = "kvtool-pieces"
    limits = (
        "kvtool-pieces is not the model's tokenizer, so counts (by about 10 % either way on English "
        "text and code, by more on other languages) and the ends of blocks differ from the model's: "
        "give --tokenizer MODEL for exact figures."
    )

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._ids = _Ids(self._pieces)
        self._encoded = EncodingMemo(self._encode)

    def encode(self, text: str) -> Symbols:
        """int32 ids; "" has none. The pieces of the ids are `text`, to the character."""
        chunks = [self._encoded(chunk) for chunk in _chunks(text)]
        return chunks[0] if len(chunks) == 1 else np.concatenate([*chunks, _NOTHING])

    def decode(self, ids: Sequence[int] | Symbols) -> str:
        return "".join(self._pieces[i] for i in ids)

    def _encode(self, text: str) -> Symbols:
        ids = self._ids
        return np.array([ids[piece] for piece in _PIECE.findall(text)], np.int32)


class _Ids(dict[str, int]):
    def __init__(self, pieces: list[str]) -> None:
        super().__init__()
        self._pieces = pieces

    def __missing__(self, piece: str) -> int:
        self._pieces.append(piece)
        self[piece] = len(self._pieces) - 1
        return self[piece]


_NOTHING = np.empty(0, np.int32)


def _chunks(text: str) -> Iterator[str]:
    """Cuts behind newlines, where a piece always ends; a longer text begins with the same chunks,
    so that a conversation that grows is not tokenised again."""
    start = 0
    while len(text) - start > _CHUNK:
        stop = text.find("\n", start + _CHUNK) + 1
        if not stop:
            break
        while text.startswith("\n", stop):
            stop += 1
        yield text[start:stop]
        start = stop
    if start < len(text):
        yield text[start:]
