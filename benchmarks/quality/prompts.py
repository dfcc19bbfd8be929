"""The committed prompts: a text, a question about it, and how the text truly goes on."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import NamedTuple

PATH = Path(__file__).with_name("prompts.json")


class Prompt(NamedTuple):
    """answer: what the quoted words in the question are followed by, inside the text or behind it.

    Sources alternate, so that prompts i and i + 2 are of one kind and i and i + 1 are not.
    """

    id: str
    source: str
    title: str
    text: str
    question: str
    answer: str


def load_prompts() -> list[Prompt]:
    return [Prompt(**fields) for fields in json.loads(PATH.read_text())]


def digest() -> str:
    """Rows of other texts are not comparable."""
    return hashlib.sha256(PATH.read_bytes()).hexdigest()[:16]
