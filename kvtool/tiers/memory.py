"""The bytes of pool blocks, as tiers read and write them."""

from __future__ import annotations

from typing import Protocol

from kvtool.cache.block_pool import BlockIds
from kvtool.cache.group import GroupSpec


class BlockViews(Protocol):
    """Bytes of some blocks, by their place in the list that was asked for.

    On a CPU these are views of the pool itself; elsewhere of host memory in front of it.
    """

    @property
    def num_blocks(self) -> int: ...

    def block(self, group: int, index: int) -> memoryview:
        """All layers of one group in a block, contiguous and writable, format "B"."""
        ...

    def layer(self, layer: int, index: int) -> memoryview:
        """One model layer in a block: a part of `block` of its group."""
        ...

    def arrived(self, layer: int) -> None:
        """This layer's bytes were written to all blocks: hand them to the device.

        Called at most once a layer, from any thread, and not for views made to be read.
        """
        ...


class BlockMemory(Protocol):
    """The KV pools of a model as bytes. A layer of the model is row `layers[layer][1]` of group
    `layers[layer][0]`."""

    @property
    def groups(self) -> tuple[GroupSpec, ...]: ...

    @property
    def block_size(self) -> int: ...

    @property
    def layers(self) -> tuple[tuple[int, int], ...]: ...

    def source(self, block_ids: tuple[BlockIds, ...]) -> BlockViews:
        """Views to read from. block_ids: one array a group, equally long."""
        ...

    def target(self, block_ids: tuple[BlockIds, ...]) -> BlockViews:
        """Views to write to."""
        ...
