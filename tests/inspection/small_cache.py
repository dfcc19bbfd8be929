"""Small caches on disk: blocks of four tokens, two layers, KV that counts up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kvtool.cache.backing import Run
from kvtool.cache.block_keys import BlockKeys
from kvtool.cache.group import GroupSpec
from kvtool.cache.namespace import Namespace
from kvtool.inspection.namespaces import visible_fields
from kvtool.tiers.disk.catalog import Catalog
from kvtool.tiers.disk.entry import Entry

BLOCK_SIZE = 4
GROUPS = (GroupSpec(layers=(0, 1), kind="kv", num_kv_heads=1, head_dim=2, dtype="float32"),)
NAMESPACE = Namespace(
    weights="3fa2b1c0" * 8,
    architecture="LlamaForCausalLM c0ffee",
    rope_regime="default",
    compute_dtype="float32",
    kv_dtype="float32",
    kv_layout="block-major",
    block_size=BLOCK_SIZE,
    tokenizer="70ce" * 16,
)


def put(
    catalog: Catalog,
    tokens: Sequence[int],
    namespace: Namespace = NAMESPACE,
    *,
    first_block: int = 0,
    provenance: str = "prefill",
) -> Entry:
    """The blocks of a sequence from `first_block` on, as one run."""
    size = namespace.block_size
    keys = BlockKeys(namespace.digest, np.array(tokens, dtype=np.int32), size)
    home = first_block * size
    run = Run(
        namespace=namespace.digest,
        parent=keys.parent(first_block),
        keys=tuple(keys.span(first_block, len(keys))),
        tokens=keys.tokens[home:],
        home=home,
        provenance=provenance,
    )
    kv = [_kv(group, len(run.keys), len(run.tokens), size) for group in GROUPS]
    return catalog.put_run(visible_fields(namespace), GROUPS, run, kv, block_size=size)


def _kv(group: GroupSpec, num_blocks: int, num_tokens: int, size: int) -> np.ndarray:
    """Slots behind the last token are zero."""
    shape = (num_blocks, len(group.layers), 2, group.num_kv_heads, size, group.head_dim)
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    values[-1, ..., num_tokens - (num_blocks - 1) * size :, :] = 0
    return values.reshape(num_blocks, len(group.layers), -1).view(np.uint8)


def other(**fields: object) -> Namespace:
    """`NAMESPACE` with other fields."""
    return replace(NAMESPACE, **fields)  # type: ignore[arg-type]


def decode(tokens: Sequence[int]) -> str:
    """Token 1 is "a"."""
    return "".join(chr(96 + token) for token in tokens)


def encode(text: str) -> np.ndarray:
    return np.array([ord(letter) - 96 for letter in text], dtype=np.int32)
