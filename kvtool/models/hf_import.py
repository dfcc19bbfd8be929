"""KV that was computed elsewhere becomes a stored prefix of a model (format: hf_cache.py)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from kvtool.cache.backing import Run
from kvtool.cache.block_keys import BlockKeys
from kvtool.cache.group import GroupSpec
from kvtool.errors import InputError
from kvtool.inspection.stored_values import Bits, stored_bits
from kvtool.models.config_groups import groups_of_config
from kvtool.models.hf_cache import PART_NAMES, tensor_name
from kvtool.models.hf_cache_file import HFCacheFile, open_hf_cache
from kvtool.models.identity import ModelIdentity
from kvtool.models.kv_layout import KV_LAYOUTS

if TYPE_CHECKING:
    from kvtool.tiers.disk.catalog import Catalog

RUN_BLOCKS = 64  # blocks stored in one file, and held in memory at a time
_AS_INTEGER = {2: torch.int16, 4: torch.int32}  # numpy has no bfloat16


class ImportReport(NamedTuple):
    """keys: of the runs that hold the prefix now. notes: what the file does not say about where its
    KV comes from, and so was not checked."""

    num_tokens: int
    keys: tuple[str, ...]
    notes: tuple[str, ...]


def import_prefix(path: Path, identity: ModelIdentity, catalog: Catalog) -> ImportReport:
    """Store the KV of a file as if this model had computed it, with provenance "import".

    All of it is checked before anything is stored. Raises `InputError` for a file that is damaged
    or does not belong to the model, `ModelError` for a model that cannot use it, `CacheError` when
    it cannot be stored.
    """
    namespace = identity.namespace
    if namespace.kv_layout == KV_LAYOUTS["nope"]:
        raise InputError(
            f"{path} cannot be imported: it holds keys with their rotation, and --reuse-scheme nope "
            "keeps them without it."
        )
    groups = groups_of_config(identity.config, identity.dtype)
    with open_hf_cache(path) as file:
        notes = file.check(identity, groups)
        keys = BlockKeys(namespace.digest, file.tokens(), namespace.block_size)
        stored: dict[str, None] = {}
        for run, kv in _runs(file, keys, groups):
            entry = catalog.put_run(
                namespace.described() | {"model": identity.name},
                groups,
                run,
                kv,
                block_size=namespace.block_size,
            )
            stored[entry.key] = None
    return ImportReport(len(keys.tokens), tuple(stored), notes)


def _runs(
    file: HFCacheFile, keys: BlockKeys, groups: tuple[GroupSpec, ...]
) -> Iterator[tuple[Run, list[npt.NDArray[np.uint8]]]]:
    size = keys.block_size
    for first in range(0, len(keys), RUN_BLOCKS):
        stop = min(first + RUN_BLOCKS, len(keys))
        tokens = keys.tokens[first * size : stop * size]
        run = Run(
            namespace=keys.namespace,
            parent=keys.parent(first),
            keys=tuple(keys.span(first, stop)),
            tokens=tokens,
            home=first * size,
            exact=file.is_exact,
            provenance="import",
        )
        kv = [_blocks(file, group, run, size) for group in groups]
        yield run, kv


def _blocks(
    file: HFCacheFile, group: GroupSpec, run: Run, block_size: int
) -> npt.NDArray[np.uint8]:
    """The bytes of a group's blocks as `RunContents.kv` has them; zero behind the last token."""
    layer_bytes = group.block_bytes(block_size) // len(group.layers)
    kv = np.zeros((len(run.keys), len(group.layers), layer_bytes), dtype=np.uint8)
    for part, bits in zip(PART_NAMES, stored_bits(group, block_size, kv).values()):
        for row, layer in enumerate(group.layers):
            name = tensor_name(layer, part)
            values = file.rows(name, run.home, run.home + len(run.tokens))
            _fill(bits[:, row], values.view(_AS_INTEGER[values.itemsize]).numpy())
    return kv


def _fill(blocks: Bits, values: Bits) -> None:
    """values [heads, tokens, dim] into blocks [num_blocks, heads, block_size, dim]."""
    num_blocks, heads, block_size, dim = blocks.shape
    rows = np.zeros((heads, num_blocks * block_size, dim), dtype=blocks.dtype)
    rows[:, : values.shape[1]] = values.view(blocks.dtype)
    blocks[:] = rows.reshape(heads, num_blocks, block_size, dim).transpose(1, 0, 2, 3)
