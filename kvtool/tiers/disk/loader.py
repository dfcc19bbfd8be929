"""Reads blocks from run files into block memory, layer by layer, verified."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from kvtool.cache.backing import StoredBlock
from kvtool.cache.block_hash import token_bytes
from kvtool.cache.group import GroupSpec
from kvtool.tiers.disk.finder import Place
from kvtool.tiers.disk.geometry import layer_places
from kvtool.tiers.disk.header import Damaged
from kvtool.tiers.disk.open_runs import OpenRun
from kvtool.tiers.disk.run_format import RunHead
from kvtool.tiers.disk.run_reader import read_ahead, read_piece
from kvtool.tiers.disk.trouble import unreadable
from kvtool.tiers.memory import BlockViews


class Unreadable(Exception):
    """A run that does not give what it promised. cause: `Damaged` or `OSError`."""

    def __init__(self, run: str, cause: Exception) -> None:
        super().__init__(unreadable(cause))
        self.run = run
        self.cause = cause


def load(
    blocks: Sequence[StoredBlock],
    groups: tuple[GroupSpec, ...],
    block_size: int,
    views: BlockViews,
    arrived: Callable[[int], None],
) -> None:
    """See `Tier.get`; raises `Unreadable`."""
    with ExitStack() as stack:
        opened: dict[OpenRun, tuple[int, RunHead]] = {}
        for block in blocks:
            place = _place(block)
            try:
                if place.run not in opened:
                    opened[place.run] = stack.enter_context(place.run.reading())
                    read_ahead(*opened[place.run])
                _check(block, place, opened[place.run][1], groups, block_size)
            except (Damaged, OSError) as error:
                raise Unreadable(place.run.name, error) from error
        for index, (layer, _, _) in enumerate(layer_places(groups)):
            for number, block in enumerate(blocks):
                place = _place(block)
                fd, head = opened[place.run]
                try:
                    read_piece(fd, head, place.position, index, views.layer(layer, number))
                except (Damaged, OSError) as error:
                    raise Unreadable(place.run.name, error) from error
            arrived(layer)


def _place(block: StoredBlock) -> Place:
    assert isinstance(block.place, Place)
    return block.place


def _check(
    block: StoredBlock,
    place: Place,
    head: RunHead,
    groups: tuple[GroupSpec, ...],
    block_size: int,
) -> None:
    """`Damaged` where the file, which vouches for itself, does not hold what the index said."""
    if (head.groups, head.block_size) != (groups, block_size):
        raise Damaged("it holds blocks of another shape")
    keys = head.run.keys
    if place.position >= len(keys) or keys[place.position] != block.key:
        raise Damaged("it does not hold the block its index says")
    if not token_bytes(head.tokens_of(place.position)).startswith(place.tokens):
        raise Damaged("it holds other tokens than its index says")
