"""Drive a `PagedModel` by hand: sequences on scattered blocks, any chunking, any table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from transformers import PreTrainedModel

from kvtool.models.hf import PagedModel
from kvtool.models.inputs import ForwardInputs, GroupInputs

BLOCK_SIZE = 3
NUM_BLOCKS = 96


class Extent(NamedTuple):
    """Consecutive slots of one block, in the order of a sequence's positions.

    delta: how far from the position its keys were computed for the sequence reads them.
    """

    block: int
    offset: int
    length: int
    delta: int = 0


@dataclass(frozen=True)
class Table:
    """Where a sequence lives."""

    extents: tuple[Extent, ...]

    def slots(self) -> list[int]:
        return [e.block * BLOCK_SIZE + e.offset + i for e in self.extents for i in range(e.length)]

    def moved(self, delta: int) -> Table:
        """The same slots, read `delta` positions further on."""
        extents = (extent._replace(delta=delta) for extent in self.extents)
        return Table(tuple(extents))

    def cut(self, num_tokens: int) -> Table:
        """The first `num_tokens` slots."""
        rows = self.entries(num_tokens)
        return Table(tuple(Extent(row[0], row[1], row[3], row[4]) for row in rows))

    def __add__(self, behind: Table) -> Table:
        return Table(self.extents + behind.extents)

    def entries(self, end: int) -> list[list[int]]:
        rows, start = [], 0
        for block, offset, length, delta in self.extents:
            if start < end:
                rows.append([block, offset, start, min(length, end - start), delta])
            start += length
        assert start >= end, "the table is too short"
        return rows


class Feed(NamedTuple):
    """Tokens [start, end) of a sequence, fed in one step. store=False: their KV is cached."""

    tokens: Sequence[int]
    table: Table
    start: int
    end: int
    store: bool = True


class PagedRun:
    """A model with NaN-poisoned pools and a free list in scrambled order."""

    def __init__(self, model: PreTrainedModel, *, check: bool = True) -> None:
        self.paged = PagedModel(model, check=check)
        self.paged.allocate_pools(NUM_BLOCKS, BLOCK_SIZE)
        for pool in self.paged.pools:
            pool.fill_(float("nan"))
        order = torch.randperm(NUM_BLOCKS, generator=torch.Generator().manual_seed(5))
        self._free = order.tolist()

    def table(self, num_tokens: int) -> Table:
        blocks = [self._free.pop() for _ in range(-(-num_tokens // BLOCK_SIZE))]
        return Table(tuple(Extent(block, 0, BLOCK_SIZE) for block in blocks))

    def ragged_table(self, num_tokens: int) -> Table:
        """Every extent begins or ends inside a block: offsets 0, 1, 2 and lengths 1, 2."""
        extents: list[Extent] = []
        while sum(extent.length for extent in extents) < num_tokens:
            block, other = self._free.pop(), self._free.pop()
            extents += [Extent(block, 1, 2), Extent(other, 0, 1), Extent(other, 1, 1)]
            extents += [Extent(block, 0, 1), Extent(self._free.pop(), 2, 1)]
        return Table(tuple(extents))

    def step(self, *feeds: Feed) -> list[torch.Tensor]:
        """Logits [end - start, vocab] of every feed."""
        lengths = [feed.end - feed.start for feed in feeds]
        slots = [
            slot if feed.store else -1
            for feed in feeds
            for slot in feed.table.slots()[feed.start : feed.end]
        ]
        tables = [feed.table.entries(feed.end) for feed in feeds]
        group = GroupInputs(
            slots=torch.tensor(slots),
            entries=torch.tensor([row for rows in tables for row in rows], dtype=torch.int32),
            cu_entries=_cumulative([len(rows) for rows in tables]),
        )
        token_ids = [token for feed in feeds for token in feed.tokens[feed.start : feed.end]]
        logits = self.paged.forward(
            ForwardInputs(
                token_ids=torch.tensor(token_ids),
                positions=torch.cat([torch.arange(feed.start, feed.end) for feed in feeds]),
                logits_rows=torch.arange(sum(lengths)),
                cu_seqlens_q=_cumulative(lengths),
                max_query_len=max(lengths),
                groups=(group,) * len(self.paged.groups),
            )
        )
        return list(logits.split(lengths))

    def kv_cache(self, layer: int) -> torch.Tensor:
        """A layer's view of its pool, as the kernels take it."""
        for group, pool in zip(self.paged.groups, self.paged.pools, strict=True):
            if layer in group.layers:
                return pool[:, group.layers.index(layer)]
        raise AssertionError(layer)


def full_logits(model: PreTrainedModel, tokens: Sequence[int]) -> torch.Tensor:
    """The model's own forward without any cache, fp32 [len(tokens), vocab]."""
    with torch.inference_mode():
        logits: torch.Tensor = model(input_ids=torch.tensor([list(tokens)]), use_cache=False).logits
    return logits[0].float()


def _cumulative(lengths: Sequence[int]) -> torch.Tensor:
    return torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)
