"""All KV of one run, verified."""

from __future__ import annotations

import os

import numpy as np

from kvtool.tiers.disk.entry import RunContents
from kvtool.tiers.disk.folder import CacheFolder
from kvtool.tiers.disk.geometry import layer_bytes
from kvtool.tiers.disk.header import Damaged
from kvtool.tiers.disk.run_head import read_head
from kvtool.tiers.disk.run_reader import read_piece
from kvtool.tiers.disk.trouble import unreadable
from kvtool.tiers.tier import Missing


def read_contents(folder: CacheFolder, name: str) -> RunContents:
    """Raises `Missing` with the reason."""
    try:
        fd = folder.open_run(name)
        try:
            return _read(fd, name)
        finally:
            os.close(fd)
    except (Damaged, OSError) as error:
        raise Missing(unreadable(error)) from error


def _read(fd: int, name: str) -> RunContents:
    head = read_head(fd, name)
    num_blocks, block_size = len(head.run.keys), head.block_size
    kv = tuple(
        np.empty((num_blocks, len(group.layers), layer_bytes(group, block_size)), np.uint8)
        for group in head.groups
    )
    for position in range(num_blocks):
        for index, (_, group, row) in enumerate(head.layers):
            read_piece(fd, head, position, index, memoryview(kv[group][position, row]))
    return RunContents(head.groups, block_size, kv)
