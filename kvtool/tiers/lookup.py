"""Which stored blocks continue a sequence, over several tiers."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.cache.backing import StoredBlock
from kvtool.cache.block_keys import BlockKeys
from kvtool.tiers.tier import Part, Tier


def stored_chain(
    tiers: Sequence[Tier], keys: BlockKeys, first_block: int, *, whole_blocks: bool
) -> list[StoredBlock]:
    """Of each block the copy in the first tier that has one; behind the full ones perhaps a part.

    A tier says at once how far it goes and is asked again only behind what another one filled
    in, so a prefix that lies in one tier, or in one and then in a lower one, takes one call each.
    """
    found: list[StoredBlock] = []
    ended_at: dict[str, int] = {}  # where a tier's last answer stopped
    position = first_block
    while position < keys.num_full_blocks:
        for tier in tiers:
            if ended_at.get(tier.name) == position:
                continue
            blocks = _full_blocks(tier, keys, position)
            ended_at[tier.name] = position + len(blocks)
            if blocks:
                found += blocks
                position += len(blocks)
                break
        else:
            break
    part = None if whole_blocks else _longest_part(tiers, keys, position)
    return found if part is None else [*found, part]


def coverage(tier: Tier, keys: BlockKeys) -> int:
    """Leading tokens of the sequence that this tier could serve alone."""
    found = stored_chain([tier], keys, 0, whole_blocks=False)
    return sum(block.num_tokens for block in found)


def _full_blocks(tier: Tier, keys: BlockKeys, first: int) -> list[StoredBlock]:
    end, size = keys.num_full_blocks, keys.block_size
    wanted = keys.span(first, end)
    tokens = keys.tokens[first * size : end * size].reshape(-1, size)
    places = tier.contains(wanted, tokens)
    return [StoredBlock(key, size, tier.name, place) for key, place in zip(wanted, places)]


def _longest_part(tiers: Sequence[Tier], keys: BlockKeys, position: int) -> StoredBlock | None:
    start = position * keys.block_size
    tokens = keys.tokens[start : start + keys.block_size]
    best: tuple[Part, str] | None = None
    for tier in tiers:
        if best is not None and best[0].num_tokens == len(tokens):
            break
        part = tier.extend(keys.parent(position), tokens) if len(tokens) else None
        if part is not None and (best is None or part.num_tokens > best[0].num_tokens):
            best = part, tier.name
    if best is None:
        return None
    part, name = best
    return StoredBlock(part.key, part.num_tokens, name, part.place)
