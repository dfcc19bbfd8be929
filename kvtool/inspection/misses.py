"""Why the prompt behind its stored prefix is not stored, or is and cannot be found."""

from __future__ import annotations

from kvtool.cache.block_keys import BlockKeys
from kvtool.inspection.first_difference import Decode, first_difference
from kvtool.inspection.prompt_span import Span, compute
from kvtool.inspection.stored_prefix import (
    Continuation,
    StoredPrefix,
    continuation,
    stored_blocks,
)
from kvtool.tiers.disk.catalog import Catalog


def missed_spans(
    catalog: Catalog, keys: BlockKeys, prefix: StoredPrefix, decode: Decode
) -> list[Span]:
    """Spans that tile [prefix.num_tokens, n): what a lost head explains, then the end."""
    spans: list[Span] = []
    start, position, following = prefix.num_tokens, prefix.num_blocks, prefix.next
    for first, last in _headless_runs(catalog, keys, prefix.num_blocks + 1):
        begin, end = first * keys.block_size, min(last * keys.block_size, len(keys.tokens))
        spans += _headless(keys, start, begin, end)
        start, position, following = end, last, continuation(catalog, keys, last)
    if start < len(keys.tokens):
        spans.append(_end(keys, start, position, following, decode))
    return spans


def _headless_runs(catalog: Catalog, keys: BlockKeys, first: int) -> list[tuple[int, int]]:
    """Stored blocks of the prompt that a gap separates from its start, as half-open ranges."""
    runs: list[tuple[int, int]] = []
    position = first
    stored = _stored_keys(catalog) if position < len(keys) else frozenset()
    while position < len(keys):
        if keys.key(position) not in stored:
            position += 1
            continue
        found = stored_blocks(catalog, keys, position, len(keys))
        if found is None:
            position += 1
            continue
        start, position = position, position + found.num_blocks
        if runs and runs[-1][1] == start:
            start = runs.pop()[0]
        runs.append((start, position))
    return runs


def _stored_keys(catalog: Catalog) -> frozenset[bytes]:
    """One look at the index is faster than one for each block of a long prompt."""
    return frozenset(key for entry in catalog.entries() for key in entry.keys)


def _headless(keys: BlockKeys, start: int, begin: int, end: int) -> list[Span]:
    """[start, begin) is lost, [begin, end) is stored behind it."""
    gap = f"not stored (evicted or deleted), though tokens {begin} to {end - 1} behind it are"
    tail = f"stored, but tokens {start} to {begin - 1} in front of it are not"
    return [
        compute(start, begin, "evicted", detail=gap),
        compute(begin, end, "head_missing", detail=tail),
    ]


def _end(
    keys: BlockKeys, start: int, position: int, following: Continuation | None, decode: Decode
) -> Span:
    """[start, n): why nothing stored goes on with it; `following` begins with block `position`."""
    end = len(keys.tokens)
    if following is None:
        if position == 0:
            return compute(start, end, "nothing_stored")
        detail = f"the stored sequence ends at token {start}, the end of block {position - 1}"
        return compute(start, end, "stored_end", detail=detail)
    if not following.differs:
        detail = (
            f"the stored sequence ends at token {start} inside block {position}; "
            "the prompt goes on in that block"
        )
        return compute(start, end, "partial_block", detail=detail)
    at = position * keys.block_size + following.common
    difference = first_difference(
        keys.tokens,
        following.tokens,
        at,
        starts=(0, position * keys.block_size),
        block_size=keys.block_size,
        decode=decode,
    )
    detail = (
        f"parts from the stored sequence of {following.entry.key[:12]} at token {at}, "
        f"inside block {position}"
    )
    return compute(start, end, "diverges", detail=detail, difference=difference)
