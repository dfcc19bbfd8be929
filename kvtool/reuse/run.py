"""A run: tokens of a prompt whose KV stands, computed at other positions, in a chain of blocks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kvtool.cache.block_pool import BlockIds


class Run(NamedTuple):
    """Prompt tokens [start, stop) equal the donor's slots.

        donor      | ........ | ..oooooo | oooooooo | ooo..... |
                     blocks[0] ^ offset                ^ num_tokens slots end here
        prompt        start -> [oooooo oooooooo ooo) <- stop

    The first slot is `offset` of blocks[0]; then come consecutive slots through the next blocks.
    delta = start - (home of blocks[0] + offset): how far the tokens move.
    """

    start: int
    stop: int
    delta: int
    blocks: tuple[int, ...]
    offset: int

    @property
    def num_tokens(self) -> int:
        return self.stop - self.start

    @property
    def at_sink(self) -> bool:
        """It lands at position 0 or was computed there: its first tokens are an attention sink."""
        return self.start == 0 or self.start == self.delta

    def slots(self, block_size: int) -> BlockIds:
        """Slot `block * block_size + offset` of each of its tokens, int64."""
        slots = np.array(self.blocks)[:, None] * block_size + np.arange(block_size)
        return slots.reshape(-1)[self.offset : self.offset + self.num_tokens]

    def cut(self, start: int, stop: int, block_size: int) -> Run:
        """The part of it at prompt positions [start, stop)."""
        assert self.start <= start < stop <= self.stop, f"[{start}, {stop}) is not in {self}"
        first, offset = divmod(self.offset + start - self.start, block_size)
        last = (self.offset + stop - 1 - self.start) // block_size
        return Run(start, stop, self.delta, self.blocks[first : last + 1], offset)
