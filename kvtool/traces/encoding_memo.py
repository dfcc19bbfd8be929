"""Token ids of texts that were tokenised before: a conversation repeats itself every turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

MAX_CHARACTERS = 1 << 26


class EncodingMemo(Generic[T]):
    """`memo(text)` is `encode(text)`; what was used longest ago is forgotten first."""

    def __init__(self, encode: Callable[[str], T], max_characters: int = MAX_CHARACTERS) -> None:
        self._encode = encode
        self._max = max_characters
        self._known: dict[str, T] = {}  # in the order of last use
        self.num_characters = 0

    def __call__(self, text: str) -> T:
        encoded = self._known.pop(text, None)
        if encoded is None:
            encoded = self._encode(text)
            self.num_characters += len(text)
        self._known[text] = encoded
        while self.num_characters > self._max and len(self._known) > 1:
            oldest = next(iter(self._known))
            del self._known[oldest]
            self.num_characters -= len(oldest)
        return encoded
