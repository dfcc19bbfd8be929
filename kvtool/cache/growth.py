"""What covering more tokens takes of a group."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Tail(Enum):
    """What happens to a partly filled last block that is about to be written."""

    KEEP = "keep"  # it is private, or there is none
    TAKE_OVER = "take over"  # leaves the index and is continued in place
    COPY = "copy"  # copy-on-write


class Growth(NamedTuple):
    num_blocks: int
    tail: Tail
