"""Text of a prompt that is stored, but was computed at another position.

Stored blocks are found by a hash of their tokens at every offset of the prompt, compared, and
followed in both directions within their run; runs that go on at the same distance are one piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kvtool.cache.block_pool import BlockIds, Tokens
from kvtool.inspection.first_difference import common_length
from kvtool.inspection.prompt_span import Span, compute
from kvtool.reuse.rolling_hash import Hashes, block_hashes, window_hashes
from kvtool.tiers.disk.entry import Entry

MAX_COPIES = 8  # of the same block that are compared


class Piece(NamedTuple):
    """Prompt tokens [start, stop) were stored `delta` positions further to the left, in run `key`."""

    start: int
    stop: int
    delta: int
    key: str


def moved_pieces(
    entries: Sequence[Entry], tokens: Tokens, start: int, min_tokens: int
) -> list[Piece]:
    """Of the prompt's tokens from `start` on; by start, without overlap. entries: of one namespace."""
    entries = [entry for entry in entries if entry.num_tokens >= entry.block_size]
    if not entries:
        return []
    pieces: list[Piece] = []
    for piece in _pieces(_Blocks(entries), tokens, start):
        if pieces and (pieces[-1].stop, pieces[-1].delta) == (piece.start, piece.delta):
            pieces[-1] = pieces[-1]._replace(stop=piece.stop)
        else:
            pieces.append(piece)
    return [p for p in pieces if p.delta != 0 and p.stop - p.start >= min_tokens]


class _Blocks:
    """The full blocks of some runs, by the hash of their tokens."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.size = size = entries[0].block_size
        self.entries = entries
        counts = [entry.num_tokens // size for entry in entries]
        blocks = [e.tokens[: n * size].reshape(n, size) for e, n in zip(entries, counts)]
        hashes = block_hashes(np.concatenate(blocks))
        order = np.argsort(hashes, kind="stable")
        self.hashes: Hashes = hashes[order]
        self._owners: BlockIds = np.repeat(np.arange(len(entries)), counts)[order]
        self._numbers: BlockIds = np.concatenate([np.arange(n) for n in counts])[order]

    def copies(self, first: int, wanted: int) -> Iterator[tuple[Entry, int]]:
        """Runs, each with where in it, in tokens, such a block begins; first: in `hashes`."""
        for place in range(first, min(first + MAX_COPIES, len(self.hashes))):
            if int(self.hashes[place]) != wanted:
                return
            yield self.entries[self._owners[place]], int(self._numbers[place]) * self.size


def _pieces(blocks: _Blocks, tokens: Tokens, start: int) -> Iterator[Piece]:
    """Within single runs."""
    windows = window_hashes(tokens[start:], blocks.size)
    firsts = np.searchsorted(blocks.hashes, windows)
    known = blocks.hashes[np.minimum(firsts, len(blocks.hashes) - 1)] == windows
    end = start
    for offset in np.flatnonzero(known).tolist():
        at = start + offset
        if at < end:
            continue
        copies = blocks.copies(int(firsts[offset]), int(windows[offset]))
        found = [_extended(entry, place, tokens, at, end) for entry, place in copies]
        best = max(found, key=lambda piece: piece.stop - piece.start)
        if best.stop - at >= blocks.size:  # else the hash was all they had in common
            yield best
            end = best.stop


def _extended(entry: Entry, place: int, tokens: Tokens, at: int, end: int) -> Piece:
    """As far as the run and the prompt, from `end` on, have the same tokens around `at`."""
    before = common_length(tokens[end:at][::-1], entry.tokens[:place][::-1])
    behind = common_length(tokens[at:], entry.tokens[place:])
    return Piece(at - before, at + behind, at - (entry.home + place), entry.key)


def with_moved(spans: Sequence[Span], pieces: Sequence[Piece]) -> list[Span]:
    """Computed spans, cut where a piece stands; pieces become spans with a reason of their own.

    What a span knew of the first difference stays with its first part.
    """
    return [part for span in spans for part in _cut(span, pieces)]


def _cut(span: Span, pieces: Sequence[Piece]) -> Iterator[Span]:
    at, rest = span.start, span
    for piece in pieces:
        start, stop = max(piece.start, span.start), min(piece.stop, span.end)
        if start >= stop:
            continue
        if at < start:
            yield replace(rest, start=at, end=start)
            rest = replace(rest, first_difference=None, differences=None)
        yield _moved(piece, start, stop, rest)
        at, rest = stop, replace(rest, first_difference=None, differences=None)
    if at < span.end:
        yield replace(rest, start=at)


def _moved(piece: Piece, start: int, stop: int, rest: Span) -> Span:
    detail = (
        f"the same text is stored at position {start - piece.delta} of run {piece.key[:12]}; a "
        "process that holds it in its block pool would take it with --reuse shift"
    )
    found = compute(
        start,
        stop,
        "other_position",
        detail=detail,
        difference=rest.first_difference,
        differences=rest.differences,
    )
    return replace(found, delta=piece.delta)
