"""Pieces of KV from a run file into memory, verified one by one."""

from __future__ import annotations

import os

import xxhash

from kvtool.tiers.disk.header import Damaged
from kvtool.tiers.disk.run_format import RunHead


def read_piece(fd: int, head: RunHead, position: int, index: int, target: memoryview) -> None:
    """One layer (`head.layers[index]`) of one block. `Damaged` when the bytes are not those that
    were written; `target` then holds anything."""
    piece = head.piece(position, index)
    if target.nbytes != piece.num_bytes:
        raise Damaged(f"a layer of {piece.num_bytes} bytes, {target.nbytes} are wanted")
    read = 0
    while read < piece.num_bytes and (more := os.preadv(fd, [target[read:]], piece.start + read)):
        read += more
    if read < piece.num_bytes or xxhash.xxh3_128_digest(target) != piece.checksum:
        layer = head.layers[index].layer
        raise Damaged(f"the checksum of block {position}, layer {layer} does not match")


def read_ahead(fd: int, head: RunHead) -> None:
    """Tell the system that all of the file will be read, layer by layer, which looks random."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, 0, head.file_bytes, os.POSIX_FADV_WILLNEED)
