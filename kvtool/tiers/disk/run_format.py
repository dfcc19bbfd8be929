"""The head of a run file: everything but the KV, and the checksum of every piece of that.

A file is `<sha256 of its head>.safetensors`: the name vouches for the head, the head's checksums
for the KV, so a published file cannot change unnoticed. A *piece* is one layer of one block.

Tensors: `tokens` int32 [num_tokens], `keys` and `content` uint8 [num_blocks, 32], `checksums`
uint8 [num_blocks, num_layers, 16] (xxh3_128; layers in the model's order), and per layer group
`group.<i>` [num_blocks, num_layers of the group, ...layer_shape].
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvtool.cache.backing import Run
from kvtool.cache.block_hash import DIGEST_BYTES, token_bytes
from kvtool.cache.block_pool import Tokens
from kvtool.cache.group import GroupSpec
from kvtool.tiers.disk import header
from kvtool.tiers.disk.geometry import LayerPlace, layer_bytes, layer_places, layer_shape

FORMAT_VERSION = 1  # goes up when a reader of the old one would go wrong
CHECKSUM_BYTES = 16
MAX_HEAD_BYTES = 1 << 26
SAFETENSORS_DTYPES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}

TensorSpec = tuple[str, str, tuple[int, ...]]  # name, dtype, shape


class Piece(NamedTuple):
    start: int
    num_bytes: int
    checksum: bytes


@dataclass(frozen=True, eq=False)
class RunHead:
    """name: stem of the file. run: what it holds. fields: of its namespace, may be empty.
    content: sha256 of namespace and tokens of each block, wherever it stood. checksums: uint8
    [num_blocks, num_layers, 16]. group_starts: where the KV of each group starts in the file."""

    name: str
    file_bytes: int
    run: Run
    fields: Mapping[str, object]
    groups: tuple[GroupSpec, ...]
    block_size: int
    content: tuple[bytes, ...]
    checksums: npt.NDArray[np.uint8]
    group_starts: tuple[int, ...]

    @cached_property
    def layers(self) -> list[LayerPlace]:
        return layer_places(self.groups)

    @cached_property
    def _layer_bytes(self) -> list[int]:
        return [layer_bytes(group, self.block_size) for group in self.groups]

    def tokens_of(self, position: int) -> Tokens:
        """Of a block: block_size, of the last one perhaps fewer."""
        return self.run.tokens[position * self.block_size : (position + 1) * self.block_size]

    def piece(self, position: int, index: int) -> Piece:
        """index: into `layers`."""
        _, group, row = self.layers[index]
        size = self._layer_bytes[group]
        start = (position * len(self.groups[group].layers) + row) * size
        checksum = self.checksums[position, index].tobytes()
        return Piece(self.group_starts[group] + start, size, checksum)


def content_hash(namespace: bytes, tokens: Tokens) -> bytes:
    """Names what a block says, not where it stands or what stands in front of it."""
    return sha256(b"kvtool block content\0" + namespace + token_bytes(tokens)).digest()


def content_hashes(run: Run, block_size: int) -> tuple[bytes, ...]:
    return tuple(
        content_hash(run.namespace, run.tokens[start : start + block_size])
        for start in range(0, len(run.tokens), block_size)
    )


def small_tensors(num_tokens: int, num_blocks: int, num_layers: int) -> list[TensorSpec]:
    return [
        ("tokens", "I32", (num_tokens,)),
        ("keys", "U8", (num_blocks, DIGEST_BYTES)),
        ("content", "U8", (num_blocks, DIGEST_BYTES)),
        ("checksums", "U8", (num_blocks, num_layers, CHECKSUM_BYTES)),
    ]


def kv_tensors(num_blocks: int, groups: Sequence[GroupSpec], block_size: int) -> list[TensorSpec]:
    return [
        (
            f"group.{index}",
            SAFETENSORS_DTYPES[group.dtype],
            (num_blocks, len(group.layers), *layer_shape(group, block_size)),
        )
        for index, group in enumerate(groups)
    ]


def encode_head(
    run: Run,
    fields: Mapping[str, object],
    groups: Sequence[GroupSpec],
    block_size: int,
    checksums: npt.NDArray[np.uint8],
) -> bytes:
    """All bytes in front of the KV."""
    tokens = np.ascontiguousarray(run.tokens, dtype="<i4")
    content = content_hashes(run, block_size)
    small = small_tensors(len(tokens), len(run.keys), checksums.shape[1])
    metadata = _metadata(run, fields, groups, block_size)
    front = header.encode(metadata, small + kv_tensors(len(run.keys), groups, block_size))
    return b"".join(
        (front, tokens.tobytes(), b"".join(run.keys), b"".join(content), checksums.tobytes())
    )


def _metadata(
    run: Run, fields: Mapping[str, object], groups: Sequence[GroupSpec], block_size: int
) -> dict[str, str]:
    return {
        "format": "kvtool run",
        "version": str(FORMAT_VERSION),
        "namespace": run.namespace.hex(),
        "fields": json.dumps(dict(fields), sort_keys=True),
        "parent": run.parent.hex(),
        "home": str(run.home),
        "block_size": str(block_size),
        "exact": str(int(run.exact)),
        "provenance": run.provenance,
        "groups": json.dumps([_group_fields(group) for group in groups]),
    }


def _group_fields(group: GroupSpec) -> dict[str, object]:
    return {
        "layers": group.layers,
        "kind": group.kind,
        "num_kv_heads": group.num_kv_heads,
        "head_dim": group.head_dim,
        "dtype": group.dtype,
        "window": group.window,
        "latent_dim": group.latent_dim,
    }
