"""A model on paged KV, driven by hand: any rows of a prompt over any table, without an engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import torch

from kvtool.cache.block_table import Entry
from kvtool.models.hf import PagedModel
from kvtool.models.inputs import ForwardInputs, GroupInputs
from kvtool.models.layout_probe import probe_layout
from kvtool_kernels import rope_shift

Positions = npt.NDArray[np.int64]


class Bench:
    """Hands out blocks from the front of the pools; all layer groups use the same block ids."""

    def __init__(self, paged: PagedModel, num_blocks: int, block_size: int = 16) -> None:
        layout = probe_layout(paged)
        assert layout.reason is None, layout.reason
        paged.use_layout(layout)
        paged.allocate_pools(num_blocks, block_size)
        self.paged = paged
        self.layout = layout
        self.block_size = block_size
        self._num_taken = 0

    @contextmanager
    def scratch(self) -> Iterator[None]:
        """What is taken inside is free again afterwards."""
        taken = self._num_taken
        try:
            yield
        finally:
            self._num_taken = taken

    def take(self, num_tokens: int) -> tuple[int, ...]:
        first, self._num_taken = self._num_taken, self._num_taken - -num_tokens // self.block_size
        assert self._num_taken <= len(self.paged.pools[0]), "the bench has too few blocks"
        return tuple(range(first, self._num_taken))

    def entries(self, blocks: Sequence[int], start: int, stop: int) -> list[Entry]:
        """Positions [start, stop) in these blocks, from slot 0 of the first on."""
        size = self.block_size
        return [
            Entry(block, 0, first, min(size, stop - first), 0)
            for block, first in zip(blocks, range(start, stop, size))
        ]

    def compute(
        self, tokens: Sequence[int], positions: Positions, table: Sequence[Entry], num_scored: int
    ) -> torch.Tensor:
        """Store the KV of these rows; logits of the last num_scored, fp32 [num_scored, vocab]."""
        return self.paged.forward(self.inputs(tokens, positions, table, num_scored))

    def inputs(
        self,
        tokens: Sequence[int],
        positions: Positions,
        table: Sequence[Entry],
        num_scored: int = 0,
    ) -> ForwardInputs:
        """tokens: of the whole sequence. table: sorted entries from position 0 on; rows are
        stored through it. positions: ascending."""
        entries = np.array(table, dtype=np.int32)
        entries = entries[entries[:, 2] <= positions[-1]]
        own = entries[np.searchsorted(entries[:, 2], positions, side="right") - 1].astype(np.int64)
        slots = own[:, 0] * self.block_size + own[:, 1] + positions - own[:, 2]
        group = GroupInputs(
            slots=torch.from_numpy(slots),
            entries=torch.from_numpy(entries),
            cu_entries=torch.tensor([0, len(entries)], dtype=torch.int32),
        )
        num_rows = len(positions)
        return ForwardInputs(
            token_ids=torch.tensor(tokens)[positions],
            positions=torch.from_numpy(positions),
            logits_rows=torch.arange(num_rows - num_scored, num_rows),
            cu_seqlens_q=torch.tensor([0, num_rows], dtype=torch.int32),
            max_query_len=num_rows,
            groups=(group,) * len(self.paged.groups),
            has_deltas=bool(entries[:, 4].any()),
        )

    def copy_moved(self, sources: Positions, blocks: Sequence[int], delta: int) -> None:
        """KV of these slots into the blocks, from slot 0 of the first on, turned by delta."""
        targets = torch.arange(len(sources)) + blocks[0] * self.block_size
        slots, deltas = torch.from_numpy(sources), torch.full((len(sources),), delta)
        for group, pool in zip(self.paged.groups, self.paged.pools):
            for row, layer in enumerate(group.layers):
                rotary, kv_cache = self.layout.rotary(layer), pool[:, row]
                if rotary is not None:
                    rope_shift(kv_cache, slots, targets, deltas.int(), rotary)
                else:
                    _copy(kv_cache, slots, targets)

    def mean(self, copies: Sequence[Sequence[int]], blocks: Sequence[int]) -> None:
        """Blocks become the mean of copies that hold the same tokens in the same slots."""
        for pool in self.paged.pools:
            kept = torch.stack([pool[list(copy)] for copy in copies])
            pool[list(blocks)] = kept.float().mean(0).to(pool.dtype)


def _copy(kv_cache: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor) -> None:
    """As `rope_shift`, for keys that have no position."""
    size = kv_cache.shape[-2]
    slots = kv_cache.movedim(-2, 1)  # [num_blocks, block_size, ...], a view
    slots[targets // size, targets % size] = slots[sources // size, sources % size]
