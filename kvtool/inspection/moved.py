"""Text of a prompt that is stored, but was computed at another position: what --reuse shift finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from kvtool.cache.backing import Run
from kvtool.cache.block_pool import Tokens
from kvtool.inspection.prompt_span import Span, compute
from kvtool.reuse.donors import similar
from kvtool.reuse.planner import Rules
from kvtool.reuse.refusals import Limits
from kvtool.reuse.repair import parse_repair
from kvtool.tiers.disk.entry import Entry
from kvtool.tiers.text.search import best_runs
from kvtool.tiers.text.stored_text import StoredText


class Piece(NamedTuple):
    """Prompt tokens [start, stop) were stored `delta` positions further to the left, in run `key`."""

    start: int
    stop: int
    delta: int
    key: str


def moved_pieces(
    entries: Sequence[Entry], tokens: Tokens, start: int, min_tokens: int
) -> list[Piece]:
    """Of the prompt's tokens from `start` on; by start, without overlap. entries: of one namespace
    with exact KV. A run is passed over where the beginning of its sequence is not stored."""
    if not entries:
        return []
    namespace = entries[0].namespace
    text = StoredText(namespace, entries[0].block_size)
    owners: dict[int, str] = {}
    for entry in sorted(entries, key=lambda entry: entry.home):
        run = Run(namespace, entry.parent, entry.keys, entry.tokens, entry.home)
        for block in text.add(run, 0) or ():
            owners.setdefault(block, entry.key)
    rules = Rules(Limits(min_tokens), parse_repair("none"), similar)
    runs = best_runs(tokens, start, text, namespace, rules)
    return [
        Piece(run.start, run.stop, run.delta, owners[run.blocks[0]]) for run in runs if run.delta
    ]


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
        f"the same text is stored at position {start - piece.delta} of run {piece.key[:12]}; "
        "--reuse shift takes it from there"
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
