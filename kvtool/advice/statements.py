"""Statements of a system message that can stand anywhere in it: "Time: 08:15:02.", a line of its
own, an element such as <date>…</date>.

Only what says in its own few words what it is, and what nothing beside it leans on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from kvtool.advice.code_fences import fences_pair
from kvtool.advice.volatile_values import masked

MAX_WORDS = 8  # beside the values
MAX_ELEMENT_LINES = 20

_ELEMENT = re.compile(
    r"^<([A-Za-z][\w.-]*)(?: [^>\n]*)?>(?:(?!</\1>).)*</\1>[ \t]*$", re.DOTALL | re.MULTILINE
)
_INSIDE = re.compile(r"<([A-Za-z][\w.-]*)(?: [^>\n]*)?>.*?</\1>", re.DOTALL)
_FENCE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_SENTENCE = re.compile(r"[^\n]*?[.!?](?=\s+[A-Z<\[(*\"]|\s*$)\s*|[^\n]+", re.MULTILINE)
_WORD = re.compile(r"[^\W\d_]+")
_LEANS = re.compile(
    r"\b(?:above|below|following|previous|preceding|earlier|later|former|latter|next|before|after|"
    r"this|that|these|those)\b",
    re.IGNORECASE,
)
_LEANS_BACK = re.compile(
    r"\s*(?:it|its|this|that|these|those|they|them|then|so|thus|therefore|hence|however|but|and|or|"
    r"also|use (?:it|this|that)|if (?:so|not)|otherwise)\b",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"\s*(?:\d+|[A-Za-z])[.)]\s")
_BULLET = re.compile(r"\s*[-*+•]\s")


class Statement(NamedTuple):
    """Characters [start, stop) of the message, the white space behind it included. pattern: its
    text with values masked; kinds: of the values."""

    start: int
    stop: int
    text: str
    pattern: str
    kinds: frozenset[str]


@lru_cache(maxsize=4096)
def statements(message: str) -> tuple[Statement, ...]:
    """Those that have values in them, in order."""
    if not fences_pair(message):
        return ()
    found = list(_elements(message))
    closed = [match.span() for match in (*_INSIDE.finditer(message), *_FENCE.finditer(message))]
    for match in _SENTENCE.finditer(message):
        if any(start < match.end() and match.start() < stop for start, stop in closed):
            continue
        statement = _statement(message, match.start(), match.end())
        if statement is not None and _stands_alone(message, statement):
            found.append(statement)
    return tuple(sorted(found))


def _elements(message: str) -> Iterator[Statement]:
    fences = [match.span() for match in _FENCE.finditer(message)]
    for match in _ELEMENT.finditer(message):
        inside = any(start < match.end() and match.start() < stop for start, stop in fences)
        if inside or match[0].count("\n") >= MAX_ELEMENT_LINES:
            continue
        statement = _statement(message, match.start(), match.end())
        if statement is not None and not _is_introduced(message, statement.start):
            yield statement


def _statement(message: str, start: int, stop: int) -> Statement | None:
    text = message[start:stop].strip()
    pattern, kinds = masked(text)
    return Statement(start, stop, text, pattern, kinds) if kinds else None


def _stands_alone(message: str, statement: Statement) -> bool:
    words = len(_WORD.findall(re.sub("\0[a-z]+\0", "", statement.pattern)))
    return (
        1 <= words + ("counter" in statement.kinds) <= MAX_WORDS
        and not _LEANS.search(statement.pattern)
        and not _LEANS_BACK.match(statement.text)
        and not _is_list_part(message, statement)
        and not statement.text.endswith(":")
        and not _LEANS_BACK.match(message, statement.stop)
        and not _is_introduced(message, statement.start)
    )


def _is_list_part(message: str, statement: Statement) -> bool:
    """Of a numbered item, or a part of an item."""
    first = message.rfind("\n", 0, statement.start) + 1
    last = message.find("\n", first)
    line = message[first : len(message) if last < 0 else last].strip()
    return bool(_NUMBERED.match(line) or (_BULLET.match(line) and line != statement.text))


def _is_introduced(message: str, start: int) -> bool:
    return message[:start].rstrip().endswith(":")
