"""Arrays in host memory as block views."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kvtool.cache.group import GroupSpec
from kvtool.tiers.disk.geometry import layer_bytes, layer_places


class ArrayViews:
    """`BlockViews` over one array a group, uint8 [num_blocks, num_layers, layer_bytes]."""

    def __init__(
        self,
        groups: Sequence[GroupSpec],
        block_size: int,
        arrays: Sequence[npt.NDArray[np.uint8]],
    ) -> None:
        for group, array in zip(groups, arrays, strict=True):
            shape = len(group.layers), layer_bytes(group, block_size)
            assert array.dtype == np.uint8 and array.shape[1:] == shape, (array.shape, shape)
        self._arrays = arrays
        self._places = {place.layer: place for place in layer_places(groups)}

    @property
    def num_blocks(self) -> int:
        return len(self._arrays[0])

    def block(self, group: int, index: int) -> memoryview:
        return memoryview(self._arrays[group][index].reshape(-1))

    def layer(self, layer: int, index: int) -> memoryview:
        _, group, row = self._places[layer]
        return memoryview(self._arrays[group][index, row])

    def arrived(self, layer: int) -> None:
        pass
