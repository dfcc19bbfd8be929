"""A run of blocks becomes the bytes of a file, straight from the memory it lies in."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import xxhash

from kvtool.cache.backing import Run
from kvtool.cache.group import GroupSpec
from kvtool.tiers.disk.geometry import layer_bytes, layer_places, without_unused_slots
from kvtool.tiers.disk.run_format import CHECKSUM_BYTES, encode_head
from kvtool.tiers.memory import BlockViews

MAX_BUFFERS = 512  # of one writev; the least that systems allow is 16, Linux takes 1024


def slice_run(run: Run, start: int, stop: int, block_size: int) -> Run:
    """The blocks [start, stop) of `run` as a run of their own."""
    return run._replace(
        parent=run.keys[start - 1] if start else run.parent,
        keys=run.keys[start:stop],
        tokens=run.tokens[start * block_size : stop * block_size],
        home=run.home + start * block_size,
        before=None,
    )


@dataclass(frozen=True)
class PreparedRun:
    """A file that is not written yet. kv: buffers in the order of the file."""

    run: Run
    head: bytes
    kv: Sequence[memoryview]

    @property
    def name(self) -> str:
        return sha256(self.head).hexdigest()

    @property
    def num_bytes(self) -> int:
        return len(self.head) + sum(view.nbytes for view in self.kv)


def prepare(
    run: Run,
    fields: Mapping[str, object],
    groups: Sequence[GroupSpec],
    block_size: int,
    views: BlockViews,
    first: int,
) -> PreparedRun:
    """`run` is what lies in the blocks from place `first` of `views` on."""
    num_blocks = len(run.keys)
    blocks = [
        [views.block(group, first + position) for position in range(num_blocks)]
        for group in range(len(groups))
    ]
    in_last = len(run.tokens) - (num_blocks - 1) * block_size
    if in_last < block_size:
        for own, group in zip(blocks, groups, strict=True):
            own[-1] = without_unused_slots(own[-1], group, block_size, in_last)
    checksums = _checksums(blocks, groups, block_size)
    head = encode_head(run, fields, groups, block_size, checksums)
    return PreparedRun(run, head, [block for own in blocks for block in own])


def _checksums(
    blocks: Sequence[Sequence[memoryview]], groups: Sequence[GroupSpec], block_size: int
) -> np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]:
    """[num_blocks, num_layers, 16]"""
    places, num_blocks = layer_places(groups), len(blocks[0])
    digests = bytearray()
    for position in range(num_blocks):
        for _, group, row in places:
            size = layer_bytes(groups[group], block_size)
            piece = blocks[group][position][row * size : (row + 1) * size]
            digests += xxhash.xxh3_128_digest(piece)
    return np.frombuffer(digests, np.uint8).reshape(num_blocks, len(places), CHECKSUM_BYTES)


def write_file(fd: int, prepared: PreparedRun) -> None:
    """Raises `OSError`; the file is then incomplete."""
    buffers = [memoryview(prepared.head), *prepared.kv]
    start = 0  # buffers in front of it are written
    while start < len(buffers):
        written = os.writev(fd, buffers[start : start + MAX_BUFFERS])
        while start < len(buffers) and written >= buffers[start].nbytes:
            written -= buffers[start].nbytes
            start += 1
        if written:
            buffers[start] = buffers[start][written:]
