"""The prompts of the gate: in what ways a text turns up again at another position."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kvtool.gate.texts import (
    BAKERY,
    CANAL,
    CLOCK,
    GREETING,
    LIBRARY,
    LIGHTHOUSE,
    ORCHARD,
    SYSTEM,
    USERS,
    Text,
)

MOVED = "one chunk moved"
REORDERED = "chunks re-ordered"
TRUNCATED = "beginning cut off"
USER_PREFIX = "user prefix changed"
FROM_START = "donor from position 0"
SITUATIONS = (MOVED, REORDERED, TRUNCATED, USER_PREFIX, FROM_START)

# Tokens of each part at most, so that a tokenizer of bytes makes no longer prompts than others.
MAX_TEXT, MAX_FRAME, MAX_QUESTION, MAX_ANSWER = 192, 48, 48, 40

Ids = tuple[int, ...]
Encode = Callable[[str], list[int]]


class Case(NamedTuple):
    """donors: prompts computed before, in this order. answer: ids that are fed behind the prompt."""

    situation: str
    donors: tuple[Ids, ...]
    prompt: Ids
    answer: Ids

    @property
    def num_tokens(self) -> int:
        """Of the longest sequence."""
        return max(len(self.prompt) + len(self.answer), *(len(ids) + 1 for ids in self.donors))


def make_cases(encode: Encode, bos_id: int | None) -> list[Case]:
    """encode: text to ids, without special tokens. bos_id: what begins every prompt, if anything.

    Parts are encoded one by one, so that a text has the same ids wherever it stands.
    """
    parts = _Parts(encode, bos_id)
    return [
        parts.case(
            MOVED,
            [(SYSTEM, LIGHTHOUSE), (SYSTEM, ORCHARD, GREETING, LIGHTHOUSE)],
            (SYSTEM, CLOCK, LIGHTHOUSE),
            LIGHTHOUSE,
        ),
        parts.case(
            MOVED,
            [(SYSTEM, GREETING, CANAL), (SYSTEM, LIBRARY, CANAL)],
            (SYSTEM, USERS[1], ORCHARD, CANAL),
            CANAL,
        ),
        parts.case(
            REORDERED,
            [(SYSTEM, ORCHARD, BAKERY, CLOCK)],
            (SYSTEM, CLOCK, ORCHARD, BAKERY),
            BAKERY,
        ),
        parts.case(
            REORDERED,
            [(SYSTEM, LIGHTHOUSE, CANAL, LIBRARY)],
            (SYSTEM, LIBRARY, CANAL, LIGHTHOUSE),
            LIBRARY,
        ),
        parts.case(
            TRUNCATED,
            [(SYSTEM, LIGHTHOUSE, ORCHARD, BAKERY)],
            (SYSTEM, ORCHARD, BAKERY),
            ORCHARD,
        ),
        parts.case(
            USER_PREFIX,
            [(USERS[0], SYSTEM, CLOCK, CANAL)],
            (USERS[1], SYSTEM, CLOCK, CANAL),
            CLOCK,
        ),
        parts.case(
            USER_PREFIX,
            [(SYSTEM, USERS[1], LIBRARY, ORCHARD)],
            (SYSTEM, USERS[0], LIBRARY, ORCHARD),
            ORCHARD,
        ),
        parts.case(FROM_START, [(BAKERY,)], (SYSTEM, GREETING, BAKERY), BAKERY),
    ]


class _Parts:
    """Encodes each part once."""

    def __init__(self, encode: Encode, bos_id: int | None) -> None:
        self._encode = encode
        self._start = () if bos_id is None else (bos_id,)

    def case(
        self,
        situation: str,
        donors: list[tuple[str | Text, ...]],
        prompt: tuple[str | Text, ...],
        asked: Text,
    ) -> Case:
        question = tuple(self._encode(asked.question))[-MAX_QUESTION:]
        return Case(
            situation=situation,
            donors=tuple(self._ids(parts) for parts in donors),
            prompt=self._ids(prompt) + question,
            answer=tuple(self._encode(asked.answer))[:MAX_ANSWER],
        )

    def _ids(self, parts: tuple[str | Text, ...]) -> Ids:
        return sum((self._part(part) for part in parts), self._start)

    def _part(self, part: str | Text) -> Ids:
        if isinstance(part, Text):
            return tuple(self._encode(part.body))[:MAX_TEXT]
        return tuple(self._encode(part))[:MAX_FRAME]
