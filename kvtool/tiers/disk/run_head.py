"""Reads the head of a run file and believes nothing that it did not check."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from hashlib import sha256

import numpy as np

from kvtool.cache.backing import Run
from kvtool.cache.block_hash import DIGEST_BYTES
from kvtool.cache.group import DTYPE_BYTES, GroupSpec
from kvtool.tiers.disk.header import LENGTH_BYTES, Damaged, Header, header_bytes, parse
from kvtool.tiers.disk.run_format import (
    FORMAT_VERSION,
    MAX_HEAD_BYTES,
    RunHead,
    kv_tensors,
    small_tensors,
)

_MAX_COUNT = 1 << 20  # layers, heads, values, slots: nothing real comes near
_MAX_POSITION = 1 << 40


def read_head(fd: int, name: str) -> RunHead:
    """The head of the open file called `name`; `Damaged` unless it is the one that was written."""
    file_bytes = os.fstat(fd).st_size
    size = header_bytes(_read(fd, LENGTH_BYTES, 0), file_bytes)
    front = _read(fd, size, 0)
    head = parse(front, file_bytes)
    _check_version(head.metadata)
    kv_start = head.tensors["group.0"].start if "group.0" in head.tensors else file_bytes
    if kv_start > MAX_HEAD_BYTES:
        raise Damaged(f"{kv_start} bytes in front of the KV")
    data = front + _read(fd, kv_start - size, size)
    if sha256(data).hexdigest() != name:
        raise Damaged("its head does not match its name")
    return _run_head(name, head, data, file_bytes)


def _read(fd: int, num_bytes: int, start: int) -> bytes:
    """Fewer where the file ends; the system may give less than it could at a time."""
    data = os.pread(fd, num_bytes, start)
    while len(data) < num_bytes and (
        more := os.pread(fd, num_bytes - len(data), start + len(data))
    ):
        data += more
    return data


def _check_version(metadata: Mapping[str, str]) -> None:
    version = metadata.get("version", "?")[:20]
    if metadata.get("format") != "kvtool run":
        raise Damaged("it is not a run of kvtool's")
    if version != str(FORMAT_VERSION):
        raise Damaged(f"format version {version}; this kvtool reads {FORMAT_VERSION}")


def _run_head(name: str, head: Header, data: bytes, file_bytes: int) -> RunHead:
    """data: the file up to the KV."""
    metadata = head.metadata
    try:
        groups = tuple(_group(entry) for entry in json.loads(metadata["groups"]))
        fields = json.loads(metadata["fields"])
        namespace = bytes.fromhex(metadata["namespace"])
        parent = bytes.fromhex(metadata["parent"])
        home = _count(int(metadata["home"]), 0, _MAX_POSITION)
        block_size = _count(int(metadata["block_size"]))
        exact, provenance = metadata["exact"] == "1", metadata["provenance"]
        provenance.encode()  # the index takes no lone surrogate
        num_tokens, num_blocks = head.tensors["tokens"].shape[0], head.tensors["keys"].shape[0]
    except (KeyError, IndexError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise Damaged("its metadata is not a run's") from error
    num_layers = len({layer for group in groups for layer in group.layers})
    if num_layers < sum(len(group.layers) for group in groups):
        raise Damaged("a layer stands in two groups")
    expected = small_tensors(num_tokens, num_blocks, num_layers)
    expected += kv_tensors(num_blocks, groups, block_size)
    found = [(key, tensor.dtype, tensor.shape) for key, tensor in head.tensors.items()]
    if found != expected or not groups or len(parent) != DIGEST_BYTES or not _plain(fields):
        raise Damaged("its tensors are not a run's")
    if not (num_blocks - 1) * block_size < num_tokens <= num_blocks * block_size:
        raise Damaged(f"{num_tokens} tokens in {num_blocks} blocks of {block_size}")
    keys, content = _digests(data, head, "keys"), _digests(data, head, "content")
    tokens = _bytes_of(data, head, "tokens").view("<i4").astype(np.int32)
    checksums = head.tensors["checksums"].shape
    return RunHead(
        name=name,
        file_bytes=file_bytes,
        run=Run(namespace, parent, keys, tokens, home, exact, provenance),
        fields=fields,
        groups=groups,
        block_size=block_size,
        content=content,
        checksums=_bytes_of(data, head, "checksums").reshape(checksums),
        group_starts=tuple(head.tensors[f"group.{i}"].start for i in range(len(groups))),
    )


def _bytes_of(data: bytes, head: Header, tensor: str) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    start, stop = head.tensors[tensor].start, head.tensors[tensor].stop
    return np.frombuffer(data, dtype=np.uint8)[start:stop]


def _digests(data: bytes, head: Header, tensor: str) -> tuple[bytes, ...]:
    start, stop = head.tensors[tensor].start, head.tensors[tensor].stop
    return tuple(data[i : i + DIGEST_BYTES] for i in range(start, stop, DIGEST_BYTES))


def _group(entry: Mapping[str, object]) -> GroupSpec:
    """Raises any of the errors that a document of another shape causes."""
    group = GroupSpec(**{**entry, "layers": tuple(entry["layers"])})  # type: ignore[arg-type]
    if group.kind not in ("kv", "latent") or group.dtype not in DTYPE_BYTES or not group.layers:
        raise ValueError("an unknown kind of layer group")
    if group.kind == "latent" and group.num_kv_heads != 1:
        raise ValueError("a latent has one head")
    for size in (group.num_kv_heads, group.head_dim):
        _count(size)
    for reach in (group.window, group.latent_dim):
        if reach is not None:
            _count(reach, 0, _MAX_POSITION)
    for layer in group.layers:
        _count(layer, 0)
    if len(set(group.layers)) != len(group.layers):
        raise ValueError("a layer stands twice")
    return group


def _count(value: object, least: int = 1, most: int = _MAX_COUNT) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{value!r} is not a count")
    return value


def _plain(fields: object) -> bool:
    """A JSON object of texts, numbers and nulls."""
    return isinstance(fields, dict) and not any(
        isinstance(value, (dict, list)) for value in fields.values()
    )
