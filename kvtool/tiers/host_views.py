"""Blocks that lie in host memory, as tiers see them."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.cache.group import GroupSpec

Layers = tuple[tuple[int, int], ...]


def layer_rows(groups: Sequence[GroupSpec]) -> Layers:
    """Model layer -> (group, row of the group's block)."""
    rows = {
        layer: (number, row)
        for number, group in enumerate(groups)
        for row, layer in enumerate(group.layers)
    }
    return tuple(rows[layer] for layer in sorted(rows))


class HostViews:
    """`memory.BlockViews` over bytes that are at hand. blocks: per group, in order."""

    def __init__(self, blocks: Sequence[Sequence[memoryview]], groups: Sequence[GroupSpec]) -> None:
        self._blocks = blocks
        self._groups = groups
        self._layers = layer_rows(groups)

    @property
    def num_blocks(self) -> int:
        return len(self._blocks[0])

    def block(self, group: int, index: int) -> memoryview:
        return self._blocks[group][index]

    def layer(self, layer: int, index: int) -> memoryview:
        group, row = self._layers[layer]
        block = self._blocks[group][index]
        size = len(block) // len(self._groups[group].layers)
        return block[row * size : (row + 1) * size]

    def arrived(self, layer: int) -> None:
        """Nothing to hand on: these bytes are the ones that are read."""
