"""Copies between pool and tiers that are not over: they hold their blocks like a request does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from kvtool.cache.backing import Transfer
from kvtool.cache.block_pool import BlockIds
from kvtool.cache.group_cache import GroupCache


class Held(NamedTuple):
    """block_ids: per group, those that are copied and the cached ones in front of them (a block
    is never evicted before what is behind it)."""

    transfer: Transfer
    block_ids: tuple[BlockIds, ...]


class Transfers:
    """The references of all transfers under way, oldest first.

    A block is handed out again only at zero references, so never while it is copied.
    """

    def __init__(self, groups: Sequence[GroupCache]) -> None:
        self._groups = groups
        self._held: list[Held] = []

    def hold(self, transfer: Transfer, block_ids: tuple[BlockIds, ...]) -> None:
        for group, blocks in zip(self._groups, block_ids):
            group.pool.touch(blocks)
        self._held.append(Held(transfer, block_ids))

    def release_ended(self) -> None:
        under_way = []
        for held in self._held:
            if held.transfer.has_ended:
                self._release(held)
            else:
                under_way.append(held)
        self._held = under_way

    def release_oldest(self) -> bool:
        """Wait for the oldest that will end by itself; False: there is none."""
        for position, held in enumerate(self._held):
            if held.transfer.is_under_way:
                held.transfer.wait()
                del self._held[position]
                self._release(held)
                return True
        return False

    def holders(self, group: int) -> Counter[int]:
        """Block id -> references."""
        return Counter(block for held in self._held for block in held.block_ids[group].tolist())

    def _release(self, held: Held) -> None:
        for group, blocks in zip(self._groups, held.block_ids):
            group.let_go(blocks)
