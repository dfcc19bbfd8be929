"""How far cached text and a prompt agree around a place where one block of them does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kvtool.cache.block_pool import Tokens
from kvtool.reuse.donor_source import DonorSource
from kvtool.reuse.run import Run


class Extent:
    """Compares one prompt with donors, within prompt positions [first, n).

    No prompt token is found equal to more than `max_depth` donors' (at most 255): a run ends
    where its next token has been found that often. This bounds the work by max_depth * n, and
    leaves text behind a repetition its own share.

    num_verified: tokens found equal to a donor's so far.
    """

    def __init__(self, tokens: Tokens, first: int, source: DonorSource, max_depth: int) -> None:
        self._tokens = tokens
        self.first = first
        self._source = source
        self._size = source.block_size
        self._depth = bytearray(len(tokens))  # donors found equal, by position
        self._counts = np.frombuffer(self._depth, dtype=np.uint8)
        self._max_depth = bytes([max_depth])
        self.num_verified = 0

    def is_exhausted(self, start: int) -> bool:
        """No further run may hold [start, start + block_size)."""
        return self._depth.find(self._max_depth, start, start + self._size) >= 0

    def run(self, block: int, start: int) -> Run | None:
        """The run through `block` with its first slot at `start`; None: it holds other tokens."""
        if not self._num_equal([block], start):
            return None
        before, begin = self._extend_left(block, start)
        behind, end = self._extend_right(block, start + self._size)
        self._counts[begin:end] += 1
        self.num_verified += end - begin
        delta = start - self._source.home(block)
        offset = (begin - start) % self._size
        return Run(begin, end, delta, (*before[::-1], block, *behind), offset)

    def _extend_left(self, block: int, at: int) -> tuple[list[int], int]:
        """Blocks in front of `block`, nearest first, and where in the prompt they begin to agree
        with it, given that `block` does from `at` on."""
        begin = max(self.first, self._depth.rfind(self._max_depth, 0, at) + 1)
        blocks: list[int] = []
        for batch in _batches():
            ahead = self._source.ancestors(block, min(batch, (at - begin) // self._size))
            equal = self._num_equal(ahead, at - len(ahead) * self._size, backwards=True)
            blocks += ahead[:equal]
            at -= equal * self._size
            block = blocks[-1] if blocks else block
            if equal < batch:
                break
        for parent in self._source.ancestors(block, 1):
            wanted = self._tokens[max(begin, at - self._size) : at]
            length = _common_suffix(self._source.tokens([parent])[0], wanted)
            if length:
                blocks.append(parent)
            at -= length
        return blocks, at

    def _extend_right(self, block: int, at: int) -> tuple[list[int], int]:
        """Blocks behind `block` and where they cease to agree, given that `block` does up to
        `at`."""
        exhausted = self._depth.find(self._max_depth, at)
        end = exhausted if exhausted >= 0 else len(self._tokens)
        blocks: list[int] = []
        for batch in _batches():
            behind = self._source.descendants(block, min(batch, (end - at) // self._size))
            equal = self._num_equal(behind, at)
            blocks += behind[:equal]
            at += equal * self._size
            block = blocks[-1] if blocks else block
            if equal == batch:
                continue
            # A fork, a partly filled block, the end of either, or the last tokens that agree.
            wanted = self._tokens[at : min(end, at + self._size)]
            block, length = self._source.longest_child(block, wanted)
            if length:
                blocks.append(block)
            at += length
            if length < self._size:
                break
        return blocks, at

    def _num_equal(self, blocks: list[int], start: int, *, backwards: bool = False) -> int:
        """How many of the leading blocks hold the prompt tokens from `start` on; backwards: the
        blocks are given, and counted, from the last one to the first."""
        if not blocks:
            return 0
        wanted = self._tokens[start : start + len(blocks) * self._size].reshape(-1, self._size)
        stored = self._source.tokens(blocks)
        different = (stored != (wanted[::-1] if backwards else wanted)).any(axis=1)
        first = int(different.argmax())
        return first if different[first] else len(blocks)


def _batches() -> Iterator[int]:
    """Numbers of blocks to compare at once: a long run takes few steps, a short one little work."""
    batch = 16
    while True:
        yield batch
        batch = min(2 * batch, 1024)


def _common_suffix(stored: Tokens, wanted: Tokens) -> int:
    """stored: a full block; wanted: as long or shorter."""
    different = np.flatnonzero(stored[len(stored) - len(wanted) :] != wanted)
    return len(wanted) - 1 - int(different[-1]) if len(different) else len(wanted)
