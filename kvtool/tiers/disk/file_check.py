"""Everything that can be wrong with a run file, found by reading all of it."""

from __future__ import annotations

import dataclasses
import os
import stat
from collections.abc import Iterator

import numpy as np

from kvtool.cache.block_hash import hash_block, root_hash, token_bytes
from kvtool.cache.namespace import Namespace
from kvtool.tiers.disk.folder import CacheFolder
from kvtool.tiers.disk.header import Damaged
from kvtool.tiers.disk.run_format import RunHead, content_hashes
from kvtool.tiers.disk.run_head import read_head
from kvtool.tiers.disk.run_reader import read_piece
from kvtool.tiers.disk.trouble import unreadable

# Exponent bits: all set in NaN and in both infinities, and in nothing else.
_EXPONENT = {
    "float32": ("<u4", 0x7F800000),
    "bfloat16": ("<u2", 0x7F80),
    "float16": ("<u2", 0x7C00),
}


def check_file(folder: CacheFolder, name: str) -> tuple[RunHead | None, list[str]]:
    """The head, where it can be read, and what is wrong; `FileNotFoundError` where nothing is."""
    try:
        fd = folder.open_run(name)
    except FileNotFoundError:
        raise
    except OSError as error:
        return None, [unreadable(error)]
    try:
        head = read_head(fd, name)
        return head, [*_mode(fd), *_names(head), *_kv(fd, head)]
    except (Damaged, OSError) as damage:
        return None, [unreadable(damage)]
    finally:
        os.close(fd)


def _mode(fd: int) -> Iterator[str]:
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    if mode & 0o077:
        yield f"others may open it (mode {mode:o})"


def _names(head: RunHead) -> Iterator[str]:
    """Whether keys, content hashes and namespace are those of the tokens and fields."""
    run = head.run
    if run.home == 0 and run.parent != root_hash(run.namespace):
        yield "it does not start where its namespace does"
    key = run.parent
    for position, stored in enumerate(run.keys):
        key = hash_block(key, token_bytes(head.tokens_of(position)))
        if key != stored:
            yield f"the key of block {position} is not that of its tokens"
            break
    if head.content != content_hashes(run, head.block_size):
        yield "its content hashes are not those of its tokens"
    digest = _digest(head)
    if digest not in (None, run.namespace):
        yield "its namespace is not that of its fields"


def _digest(head: RunHead) -> bytes | None:
    """None where it cannot be known: no fields, or a salt, which is never written down."""
    names = {field.name for field in dataclasses.fields(Namespace)}
    known = {name: value for name, value in head.fields.items() if name in names}
    if not known or known.get("salt") is not None:
        return None
    try:
        return Namespace(**known).digest  # type: ignore[arg-type]
    except TypeError:  # fields of another version
        return None


def _kv(fd: int, head: RunHead) -> Iterator[str]:
    """The first piece with a wrong checksum; the first with values that are no numbers."""
    are_numbers = True
    for position in range(len(head.run.keys)):
        for index, (layer, group, _) in enumerate(head.layers):
            data = bytearray(head.piece(position, index).num_bytes)
            try:
                read_piece(fd, head, position, index, memoryview(data))
            except Damaged as damage:
                yield str(damage)
                return
            if are_numbers and not _is_finite(data, head.groups[group].dtype):
                are_numbers = False
                yield f"NaN or infinity in block {position}, layer {layer}"


def _is_finite(data: bytearray, dtype: str) -> bool:
    unsigned, exponent = _EXPONENT[dtype]
    return not np.any((np.frombuffer(data, dtype=unsigned) & exponent) == exponent)
