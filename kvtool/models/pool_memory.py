"""The KV pools of a model as bytes that tiers read and write (`tiers.memory.BlockMemory`)."""

from __future__ import annotations

import torch

from kvtool.cache.block_pool import BlockIds
from kvtool.cache.group import GroupSpec
from kvtool.models.hf import PagedModel
from kvtool.tiers.host_views import HostViews, Layers, layer_rows
from kvtool.tiers.memory import BlockViews


class PoolMemory:
    """On a CPU views are the pool itself; elsewhere, or with staged=True, copies in host memory.

    The pools are looked up at each use, so this may be made before they are allocated.
    """

    def __init__(self, model: PagedModel, block_size: int, *, staged: bool | None = None) -> None:
        self._model = model
        self._staged = model.device.type != "cpu" if staged is None else staged
        self._stream: torch.cuda.Stream | None = None
        if model.device.type == "cuda":
            self._stream = torch.cuda.Stream(model.device)  # type: ignore[no-untyped-call]
        self.block_size = block_size
        self.groups: tuple[GroupSpec, ...] = model.groups
        self.layers: Layers = layer_rows(model.groups)

    def source(self, block_ids: tuple[BlockIds, ...]) -> BlockViews:
        if not self._staged:
            return self._direct(block_ids)
        views = StagedViews(self._pools(), block_ids, self.groups, self._stream)
        views.fetch()
        return views

    def target(self, block_ids: tuple[BlockIds, ...]) -> BlockViews:
        if not self._staged:
            return self._direct(block_ids)
        return StagedViews(self._pools(), block_ids, self.groups, self._stream)

    def _direct(self, block_ids: tuple[BlockIds, ...]) -> HostViews:
        arrays = [pool.flatten(1).numpy() for pool in self._pools()]
        blocks = [
            [memoryview(array[block]) for block in ids.tolist()]
            for array, ids in zip(arrays, block_ids)
        ]
        return HostViews(blocks, self.groups)

    def _pools(self) -> list[torch.Tensor]:
        """A group: uint8 [num_blocks, num_layers, layer_bytes]; a view, pools are block-major."""
        assert self._model.pools, "the pools are not allocated"
        return [pool.flatten(2).view(torch.uint8) for pool in self._model.pools]


class StagedViews(HostViews):
    """Copies in host memory, pinned where a device is to read or write them.

    Copies run on `stream`, behind everything the device was asked to compute before these views
    were made, and are over when `fetch` or `arrived` return.
    """

    def __init__(
        self,
        pools: list[torch.Tensor],
        block_ids: tuple[BlockIds, ...],
        groups: tuple[GroupSpec, ...],
        stream: torch.cuda.Stream | None,
    ) -> None:
        self._pools = pools
        self._stream = stream
        self._ids = [torch.from_numpy(ids).to(pool.device) for ids, pool in zip(block_ids, pools)]
        self._staging = [
            torch.empty(
                (len(ids), *pool.shape[1:]), dtype=torch.uint8, pin_memory=stream is not None
            )
            for ids, pool in zip(self._ids, pools)
        ]
        rows = [[memoryview(row) for row in copy.flatten(1).numpy()] for copy in self._staging]
        super().__init__(rows, groups)
        if stream is not None:
            stream.wait_stream(torch.cuda.current_stream(stream.device))

    @torch.inference_mode()
    def fetch(self) -> None:
        """All of the blocks, from the device."""
        with torch.cuda.stream(self._stream):
            for copy, pool, ids in zip(self._staging, self._pools, self._ids):
                copy.copy_(pool[ids], non_blocking=True)
            self._wait()

    @torch.inference_mode()
    def arrived(self, layer: int) -> None:
        group, row = self._layers[layer]
        pool, ids = self._pools[group], self._ids[group]
        with torch.cuda.stream(self._stream):
            pool[ids, row] = self._staging[group][:, row].to(pool.device, non_blocking=True)
            self._wait()

    def _wait(self) -> None:
        """Until the copies so far are done; not for what other threads add meanwhile."""
        if self._stream is not None:
            self._stream.record_event().synchronize()
