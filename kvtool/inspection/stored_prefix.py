"""How much of a prompt is stored, token by token, and what stands where the match ends."""

from __future__ import annotations

from typing import NamedTuple

from kvtool.cache.block_keys import BlockKeys
from kvtool.cache.block_pool import Tokens
from kvtool.inspection.first_difference import common_length
from kvtool.tiers.disk.catalog import Catalog
from kvtool.tiers.disk.entry import Entry


class Continuation(NamedTuple):
    """A stored block behind the match.

    common: leading tokens that are as in the prompt. tokens: those of the block and of the blocks
    behind it in the same run.
    """

    entry: Entry
    common: int
    tokens: Tokens
    num_block_tokens: int

    @property
    def differs(self) -> bool:
        """It has another token where the prompt goes on, or it ends there."""
        return self.num_block_tokens > self.common


class StoredPrefix(NamedTuple):
    """num_blocks: full blocks of the prompt that are stored from the start on. next: the stored
    block behind them that has most in common with the prompt; None where nothing follows."""

    num_blocks: int
    num_tokens: int
    entries: tuple[Entry, ...]
    next: Continuation | None


def stored_prefix(catalog: Catalog, keys: BlockKeys) -> StoredPrefix:
    """keys: of the prompt under the namespace that is searched."""
    entries: dict[str, Entry] = {}
    num_blocks = 0
    while found := stored_blocks(catalog, keys, num_blocks, keys.num_full_blocks):
        entries[found.entry.key] = found.entry
        num_blocks += found.num_blocks
    following = continuation(catalog, keys, num_blocks)
    if following is not None and following.common:
        entries[following.entry.key] = following.entry
    common = following.common if following else 0
    num_tokens = num_blocks * keys.block_size + common
    return StoredPrefix(num_blocks, num_tokens, tuple(entries.values()), following)


class StoredBlocks(NamedTuple):
    """Consecutive blocks of the prompt in one run."""

    entry: Entry
    num_blocks: int


def stored_blocks(
    catalog: Catalog, keys: BlockKeys, position: int, stop: int
) -> StoredBlocks | None:
    """Of the prompt's blocks [position, stop), the leading ones in the run that holds the first;
    None where that is not stored. Tokens are compared, keys only find them."""
    found = catalog.block(keys.key(position)) if position < stop else None
    if found is None:
        return None
    entry, number = found
    size = keys.block_size
    wanted = keys.tokens[position * size : stop * size]
    common = common_length(wanted, entry.tokens[number * size :])
    num_blocks = stop - position if common == len(wanted) else common // size
    return StoredBlocks(entry, num_blocks) if num_blocks else None


def continuation(catalog: Catalog, keys: BlockKeys, position: int) -> Continuation | None:
    """Of the stored blocks behind block `position` - 1, the one most like the prompt there.

    Of several, one that goes on beyond what is common, then the one used last.
    """
    size = keys.block_size
    rest = keys.tokens[position * size :]
    found = [
        _continuation(entry, number, rest, size)
        for entry, number in catalog.children(keys.parent(position))
    ]
    return max(found, key=lambda c: (c.common, c.differs, c.entry.last_used), default=None)


def _continuation(entry: Entry, number: int, rest: Tokens, size: int) -> Continuation:
    tokens = entry.tokens[number * size :]
    block = tokens[:size]
    return Continuation(entry, common_length(rest, block), tokens, len(block))
