"""A stretch of a sequence whose KV was not computed in place, on exact KV, by the sequence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from kvtool.cache.block_pool import BlockIds
from kvtool.cache.block_tree import BlockTree
from kvtool.reuse.run import Run

POOL = "pool"  # exact text of another chain in the pool, moved
KEPT = "kept"  # a copy of exact text, or a mean of copies, that stands under no prefix, moved
COMPUTED = "computed"  # behind moved text, in blocks that no index knows

Runs = tuple[Run, ...]


class Section(NamedTuple):
    """One run a layer group, all of the same positions, and the blocks that are held for it.

    pins: one array a group; the last of them is the last block of the run. They are those of the
    run and, where these are cached, all in front of them: a block is never evicted before what is
    behind it. origin: where the KV comes from.
    """

    runs: Runs
    pins: tuple[BlockIds, ...]
    origin: str

    @property
    def start(self) -> int:
        return self.runs[0].start

    @property
    def stop(self) -> int:
        return self.runs[0].stop

    def cut(self, start: int, stop: int, block_size: int) -> Section:
        """The part of it at positions [start, stop)."""
        runs = tuple(run.cut(start, stop, block_size) for run in self.runs)
        pins = tuple(
            blocks[: len(blocks) - _num_blocks_behind(run, stop, block_size)]
            for run, blocks in zip(self.runs, self.pins)
        )
        return Section(runs, pins, self.origin)

    def overlaps(self, start: int, stop: int) -> bool:
        return self.start < stop and start < self.stop


def _num_blocks_behind(run: Run, stop: int, block_size: int) -> int:
    """Blocks of the run that hold none of its positions below `stop`."""
    return len(run.blocks) - 1 - (run.offset + stop - 1 - run.start) // block_size


def all_pins(sections: tuple[Section, ...], group: int) -> BlockIds:
    """The pinned blocks of a group, each once."""
    return np.unique(np.concatenate([section.pins[group] for section in sections]))


def check_sections(tree: BlockTree, sections: Iterable[Section], group: int) -> None:
    """Blocks of donors are cached, full up to the run's end, and moved by delta."""
    for section in sections:
        run = section.runs[group]
        blocks = list(run.blocks)
        if section.origin == COMPUTED:
            assert run.delta == 0, f"{run} is its own donor, and moves"
            continue
        if section.origin != POOL:
            assert not any(map(tree.num_tokens, blocks)), f"{run} stands under a prefix"
            continue
        size, end = tree.pool.block_size, run.offset + run.num_tokens
        assert tree.chain(blocks[-1])[-len(blocks) :] == blocks, f"{run} leaves the cache"
        assert (end - 1) % size < tree.num_tokens(blocks[-1]), f"{run} leaves the cache"
        assert run.start - run.delta == tree.position(blocks[0]) * size + run.offset
