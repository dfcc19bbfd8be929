"""Token ids to text, piece by piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

REPLACEMENT = "\ufffd"  # what decoders put for bytes that are not (yet) a character
_MAX_PENDING = 4  # ids; an unfinished UTF-8 character has three bytes at most


class Decoder(Protocol):
    def decode(self, ids: Sequence[int]) -> str: ...


class Detokenizer:
    """Nothing comes out while the tail may be an unfinished character; all pieces together are
    `decode(all ids)`.

    Only a short window is decoded for each id: those whose text came out last, which tell the
    decoder what stands before (a leading space depends on it), and those still pending.

        | context: text is out | pending |
        0                num_context     len(window)
    """

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._window: list[int] = []
        self._num_context = 0
        self._num_shown = 0  # characters of the window's text that are out

    def append(self, token_id: int) -> str:
        """The text that is certain with this id, often empty."""
        if not self._decoder.decode([token_id, token_id]):
            return ""  # a special token; twice, for a lone leading space would be stripped
        self._window.append(token_id)
        text = self._decoder.decode(self._window)
        if text.endswith(REPLACEMENT):
            return self._settle(text)
        piece = text[self._num_shown :]
        if not piece:
            return ""
        self._window = self._window[self._num_context :]
        self._num_context = len(self._window)
        self._num_shown = len(self._decoder.decode(self._window))
        return piece

    def flush(self) -> str:
        """The unfinished tail, once, at the end."""
        piece = self._decoder.decode(self._window)[self._num_shown :]
        self._window, self._num_context, self._num_shown = [], 0, 0
        return piece

    def _settle(self, text: str) -> str:
        """So many pending ids hold bytes that never become a character. Cut the window where
        that changes no text, else keep waiting."""
        size = len(self._window)
        if size - self._num_context <= _MAX_PENDING:
            return ""
        for cut in range(size - 1, max(self._num_context, size - 1 - _MAX_PENDING), -1):
            head = self._decoder.decode(self._window[:cut])
            tail = self._decoder.decode(self._window[cut:])
            if head + tail == text:
                piece = head[self._num_shown :]
                self._window, self._num_context, self._num_shown = self._window[cut:], 0, 0
                return piece
        return ""
