"""Commands in documents with the output that is shown below them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
OMITTED = "…"
_BLOCK = re.compile(r"^```(?:sh)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Shown(NamedTuple):
    """lines: of the output, in order, with others omitted in between."""

    document: str
    command: str
    lines: tuple[str, ...]

    @property
    def arguments(self) -> list[str]:
        return shlex.split(self.command)[1:]


def blocks(document: str) -> list[str]:
    return _BLOCK.findall((ROOT / document).read_text())


def shown(document: str) -> list[Shown]:
    """Blocks that begin with `$ kvtool simulate-agent`."""
    found = []
    for block in blocks(document):
        first, *lines = block.splitlines()
        if first.startswith("$ kvtool simulate-agent "):
            kept = tuple(line for line in lines if line and line != OMITTED)
            found.append(Shown(document, first.removeprefix("$ "), kept))
    return found


def commands(document: str) -> list[str]:
    """Lines of blocks that are `simulate-agent` commands and show no output."""
    lines = (line for block in blocks(document) for line in block.splitlines())
    return [line for line in lines if line.startswith("kvtool simulate-agent ")]
