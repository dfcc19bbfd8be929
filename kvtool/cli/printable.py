"""Text that a terminal only shows: names, stored text and messages may hold anything."""

from __future__ import annotations

import shlex


def printable(text: str) -> str:
    """Control characters, line ends and whatever else a terminal would not simply show, escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def shell_words(words: list[str]) -> str:
    """A command line to copy: a word that cannot be shown stands as $'…', as bash and zsh read it."""
    return " ".join(_shell_word(word) for word in words)


def _shell_word(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    data = word.encode("utf-8", "surrogateescape")
    shown = (chr(b) if 32 <= b < 127 and b not in b"\\'" else f"\\x{b:02x}" for b in data)
    return f"$'{''.join(shown)}'"


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
