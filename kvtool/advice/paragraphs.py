"""A system message cut into pieces that can change places without changing what they say."""

from __future__ import annotations

import re
from functools import lru_cache

from kvtool.advice.code_fences import fences_pair, num_fences

_BREAK = re.compile(r"\n[ \t]*\n\s*")
_HEADING = re.compile(r"(#{1,6})\s")
_TAG = re.compile(r"^<(/?)([A-Za-z][\w.-]*)[^>\n]*?(/?)>|</([A-Za-z][\w.-]*)>[ \t]*$", re.MULTILINE)
_CONTINUES = re.compile(
    r"(?:[a-z]|[-*+•] |\d+[.)] |\|)"
    r"|(?:It|Its|This|That|These|Those|They|Then|So|Thus|Therefore|Hence|However|But|And|Or|Also|"
    r"Otherwise|Instead|Likewise|Similarly|Finally|First|Second|Third|Next|Again)\b"
)
_NO_PLACE = r"(?!\s+(?:(?:the|an?|zero|all)\b|\d))"  # "below the surface"
_LOOKS_BACK = re.compile(
    rf"\babove\b{_NO_PLACE}|\b(?:previous|preceding|earlier|former|latter)\b", re.IGNORECASE
)
_LOOKS_ON = re.compile(
    rf"\bbelow\b{_NO_PLACE}|\bfollowing\b|\bas follows\b|\bnext (?:paragraph|section|part|message)",
    re.IGNORECASE,
)


@lru_cache(maxsize=4096)
def pieces(message: str) -> tuple[str, ...]:
    """In order; joined by empty lines they are the message, but for white space between them. One
    piece: nothing in it can move.

    A block of code, an element or a section under a heading stays whole; text that leans on its
    neighbour ("the following", "However", a list, a colon at the end) stays with it.
    """
    paragraphs = [part for part in _BREAK.split(message.strip()) if part]
    if not fences_pair(message) or not paragraphs:
        return (message,)
    if _leans_on(paragraphs[-1]) or _leans_back(paragraphs[0]):
        return (message,)
    joined = _together(_sections(_closed(paragraphs)))
    return tuple(joined) if len(joined) > 1 else (message,)


def _closed(paragraphs: list[str]) -> list[str]:
    """Code and elements that hold empty lines are put together again."""
    found: list[str] = []
    is_open = False
    for paragraph in paragraphs:
        if is_open:
            found[-1] += f"\n\n{paragraph}"
        else:
            found.append(paragraph)
        is_open = _is_open(found[-1])
    return found


def _is_open(text: str) -> bool:
    if num_fences(text) % 2:
        return True
    depth: dict[str, int] = {}
    for closes, name, is_empty, closed_behind in _TAG.findall(text):
        if closed_behind or closes:
            depth[closed_behind or name] = max(0, depth.get(closed_behind or name, 0) - 1)
        elif not is_empty and f"</{name}>" not in _line_of(text, name):
            depth[name] = depth.get(name, 0) + 1
    return any(depth.values())


def _line_of(text: str, name: str) -> str:
    return next((line for line in text.splitlines() if line.startswith(f"<{name}")), "")


def _sections(paragraphs: list[str]) -> list[str]:
    """Under headings of the highest level there is; what stands before the first has to stay
    there, and makes the whole one piece."""
    levels = [len(match[1]) for text in paragraphs if (match := _HEADING.match(text))]
    if not levels:
        return paragraphs
    found: list[str] = []
    for paragraph in paragraphs:
        match = _HEADING.match(paragraph)
        if found and (match is None or len(match[1]) > min(levels)):
            found[-1] += f"\n\n{paragraph}"
        else:
            found.append(paragraph)
    starts_with_heading = _HEADING.match(found[0])
    return found if starts_with_heading else ["\n\n".join(found)]


def _together(paragraphs: list[str]) -> list[str]:
    found: list[str] = []
    for paragraph in paragraphs:
        if found and (_leans_on(found[-1]) or _leans_back(paragraph)):
            found[-1] += f"\n\n{paragraph}"
        else:
            found.append(paragraph)
    return found


def _leans_on(text: str) -> bool:
    return text.endswith(":") or bool(_LOOKS_ON.search(_BREAK.split(text)[-1]))


def _leans_back(text: str) -> bool:
    return bool(_CONTINUES.match(text) or _LOOKS_BACK.search(_BREAK.split(text)[0]))
