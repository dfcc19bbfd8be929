"""A stored prefix as a file that plain Transformers can load (docs/hf-cache.md). No torch.

safetensors: `layers.<i>.key` and `layers.<i>.value` [1, num_kv_heads, n, head_dim] as the model's
own cache holds them (MLA: latent [1, 1, n, latent] and rotated row [1, 1, n, rope]), at full
length for every layer, and `tokens` int32 [n], from position 0 on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from kvtool.cache.group import DTYPE_BYTES, GroupSpec
from kvtool.errors import CacheError, ConfigError
from kvtool.inspection.namespaces import FIELDS
from kvtool.inspection.run_chain import Link, chain_to
from kvtool.inspection.stored_values import stored_bits
from kvtool.models.kv_layout import KV_LAYOUTS
from kvtool.models.replaced_file import replaced_file
from kvtool.tiers.disk.catalog import Catalog
from kvtool.tiers.disk.entry import Entry, RunContents
from kvtool.tiers.tier import Missing

FORMAT = "kvtool-hf-cache 1"
DTYPE_NAMES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}
PART_NAMES = ("key", "value")

Shape = tuple[int, int, int, int]


class ExportReport(NamedTuple):
    path: Path
    num_tokens: int
    num_layers: int
    num_bytes: int


class StoredTensor(NamedTuple):
    dtype: str
    shape: Shape

    @property
    def num_bytes(self) -> int:
        return int(np.prod(self.shape)) * DTYPE_BYTES[self.dtype]


def export_prefix(
    catalog: Catalog, entry: Entry, out: Path, *, num_tokens: int | None = None
) -> ExportReport:
    """Write the KV of the sequence that ends with `entry`, or of its first `num_tokens` tokens.

    Reads one run at a time. Raises `CacheError` when a part is not stored or damaged,
    `ConfigError` for `num_tokens` or `out` (only an empty file or an earlier export is replaced).
    """
    links = chain_to(catalog, entry)
    stored = entry.home + entry.num_tokens
    length = stored if num_tokens is None else num_tokens
    if not 1 <= length <= stored:
        raise ConfigError(f"{length} tokens cannot be exported; run {entry.key:.12} has {stored}.")
    links = [link for link in links if link.entry.home < length]
    _check_rotated(entry)
    first = _read(catalog, links[0].entry)
    tensors = tensors_of(first.groups, length)
    with replaced_file(out, FORMAT) as file:
        offsets = _write_header(file, tensors, _metadata(links, length), length)
        for link in links:
            contents = first if link is links[0] else _read(catalog, link.entry)
            _write_run(file, offsets, link, contents, length)
        num_bytes = file.seek(0, 2)
    return ExportReport(out, length, len(tensors) // len(PART_NAMES), num_bytes)


def tensors_of(groups: tuple[GroupSpec, ...], length: int) -> dict[str, StoredTensor]:
    """Every layer's tensors for `length` tokens, in layer order."""
    tensors: dict[str, StoredTensor] = {}
    by_layer = {layer: group for group in groups for layer in group.layers}
    for layer, group in sorted(by_layer.items()):
        latent = group.latent_dim or 0
        dims = (latent, group.head_dim - latent) if latent else (group.head_dim,) * 2
        for part, dim in zip(PART_NAMES, dims):
            shape = (1, group.num_kv_heads, length, dim)
            tensors[tensor_name(layer, part)] = StoredTensor(group.dtype, shape)
    return tensors


def tensor_name(layer: int, part: str) -> str:
    return f"layers.{layer}.{part}"


def _check_rotated(entry: Entry) -> None:
    if entry.fields.get("kv_layout") == KV_LAYOUTS["nope"]:
        raise CacheError(
            f"Run {entry.key:.12} cannot be exported: its keys are kept without their rotation "
            "(--reuse-scheme nope), and a Hugging Face cache holds them with it.",
            hint="Compute the text with --reuse-scheme rotate.",
        )


def _read(catalog: Catalog, entry: Entry) -> RunContents:
    try:
        return catalog.read(entry)
    except Missing as missing:
        raise CacheError(
            f"Run {entry.key:.12} cannot be exported: {missing}.",
            hint="kvtool inspect-cache --check",
        ) from missing


def _metadata(links: Sequence[Link], length: int) -> dict[str, str]:
    """Values are strings, as safetensors wants them; `namespace` is JSON."""
    fields = links[0].entry.fields
    namespace = {name: fields[name] for name in FIELDS if name in fields}
    return {
        "format": FORMAT,
        "home": "0",
        "num_tokens": str(length),
        "namespace": json.dumps(namespace),
        "architecture": str(namespace.get("architecture", "")).partition(" ")[0],
        "transformers": metadata.version("transformers"),
        "exact": json.dumps(all(link.entry.exact for link in links)),
    }


def _write_header(
    file: IO[bytes], tensors: dict[str, StoredTensor], about: dict[str, str], length: int
) -> dict[str, int]:
    """Where each tensor begins in the file; `tokens` is the last of them."""
    header: dict[str, object] = {"__metadata__": about}
    offsets, end = {}, 0
    for name, tensor in tensors.items():
        offsets[name], end = end, end + tensor.num_bytes
        header[name] = _described(DTYPE_NAMES[tensor.dtype], tensor.shape, offsets[name], end)
    offsets["tokens"] = end
    header["tokens"] = _described("I32", (length,), end, end + 4 * length)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    return {name: 8 + len(text) + offset for name, offset in offsets.items()}


def _described(dtype: str, shape: tuple[int, ...], start: int, end: int) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": (start, end)}


def _write_run(
    file: IO[bytes], offsets: dict[str, int], link: Link, contents: RunContents, length: int
) -> None:
    """The tokens of a link, each head of each layer at its place in the layer's tensor."""
    home, size = link.entry.home, contents.block_size
    count = min(link.num_blocks * size, link.entry.num_tokens, length - home)
    file.seek(offsets["tokens"] + 4 * home)
    file.write(link.entry.tokens[:count].astype("<i4").tobytes())
    for group, kv in zip(contents.groups, contents.kv, strict=True):
        for part, bits in zip(PART_NAMES, stored_bits(group, size, kv).values()):
            row_bytes = bits.shape[-1] * bits.itemsize
            for row, layer in enumerate(group.layers):
                for head in range(bits.shape[2]):
                    tokens = bits[: link.num_blocks, row, head].reshape(-1, bits.shape[-1])[:count]
                    place = (head * length + home) * row_bytes
                    file.seek(offsets[tensor_name(layer, part)] + place)
                    file.write(tokens.tobytes())
