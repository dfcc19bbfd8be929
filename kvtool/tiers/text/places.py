"""Where the blocks of a found run lie, as the tiers themselves say."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from kvtool.cache.backing import StoredBlock
from kvtool.cache.block_pool import Tokens
from kvtool.reuse.run import Run
from kvtool.tiers.text.stored_text import StoredText
from kvtool.tiers.tier import Tier

MAX_MISSING = 4  # blocks of a run that turn out to be gone, before the rest is given up


class Places(NamedTuple):
    """blocks hold the run's prompt tokens [start, stop)."""

    start: int
    stop: int
    blocks: tuple[StoredBlock, ...]


def places_of(tiers: Sequence[Tier], source: StoredText, run: Run, tokens: Tokens) -> Places | None:
    """The longest part of a run that is there; of each block the copy in the first tier."""
    size = source.block_size
    begin = run.start - run.offset  # the prompt position of slot 0 of the first block
    blocks = _full_blocks(tiers, source, run)
    if source.num_tokens(run.blocks[-1]) < size:
        start = begin + (len(run.blocks) - 1) * size
        blocks.append(_part(tiers, source, run.blocks[-1], tokens[start : run.stop]))
    stretches = []
    for there, group in groupby(enumerate(blocks), key=lambda item: item[1] is not None):
        numbers = [number for number, _ in group]
        if there:
            first = begin + numbers[0] * size
            last = blocks[numbers[-1]]
            assert last is not None
            stop = begin + numbers[-1] * size + last.num_tokens
            found = tuple(block for number in numbers if (block := blocks[number]) is not None)
            stretches.append(Places(max(first, run.start), min(stop, run.stop), found))
    return max(stretches, key=lambda places: places.stop - places.start, default=None)


def _full_blocks(tiers: Sequence[Tier], source: StoredText, run: Run) -> list[StoredBlock | None]:
    """Mostly one question: a tier answers for all blocks from one on, up to the first it lacks."""
    size = source.block_size
    full = [block for block in run.blocks if source.num_tokens(block) == size]
    keys, rows = [source.key(block) for block in full], source.tokens(full)
    found: list[StoredBlock | None] = []
    num_missing = 0
    while len(found) < len(full) and num_missing <= MAX_MISSING:
        at = len(found)
        for tier in tiers:
            places = tier.contains(keys[at:], rows[at:])
            if places:
                found += [
                    StoredBlock(key, size, tier.name, place)
                    for key, place in zip(keys[at:], places)
                ]
                break
        else:
            found.append(None)
            num_missing += 1
    return found + [None] * (len(full) - len(found))


def _part(
    tiers: Sequence[Tier], source: StoredText, block: int, tokens: Tokens
) -> StoredBlock | None:
    """A partly filled block, which is found by what it continues."""
    parent = source.parent_key(block)
    if parent is None:
        return None
    for tier in tiers:
        part = tier.extend(parent, tokens)
        if part is not None and part.num_tokens == len(tokens):
            return StoredBlock(part.key, part.num_tokens, tier.name, part.place)
    return None
