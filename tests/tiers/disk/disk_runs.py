"""Runs of blocks whose bytes follow from their keys, and the memory they lie in."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kvtool.cache.backing import Run, StoredBlock
from kvtool.cache.block_keys import BlockKeys
from kvtool.cache.group import GroupSpec
from kvtool.cache.namespace import Namespace
from kvtool.tiers.disk.array_views import ArrayViews
from kvtool.tiers.disk.disk import DiskTier
from kvtool.tiers.disk.geometry import layer_bytes

BLOCK_SIZE = 4
KV = GroupSpec(layers=(0, 2), kind="kv", num_kv_heads=2, head_dim=8, dtype="float32")
LATENT = GroupSpec(
    layers=(1,), kind="latent", num_kv_heads=1, head_dim=12, dtype="bfloat16", latent_dim=8
)
GROUPS = (KV, LATENT)
MIB = 1 << 20


def fields(**changes: object) -> dict[str, object]:
    names = ("weights", "architecture", "rope_regime", "compute_dtype", "kv_dtype", "kv_layout")
    known = {name: f"a {name}" for name in names}
    return {**known, "block_size": BLOCK_SIZE, "tokenizer": "a tokenizer", "adapter": None,
            "salt": None, "implementation": None, **changes}  # fmt: skip


def namespace(**changes: object) -> bytes:
    return Namespace(**fields(**changes)).digest  # type: ignore[arg-type]


NAMESPACE = namespace()


def prompt(num_tokens: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1000, num_tokens).astype(np.int32)


def run_of(
    tokens: np.ndarray, start: int = 0, stop: int | None = None, *, space: bytes = NAMESPACE,
    block_size: int = BLOCK_SIZE,
) -> Run:  # fmt: skip
    """The blocks [start, stop) of a sequence."""
    keys = BlockKeys(space, tokens, block_size)
    stop = len(keys) if stop is None else stop
    part = tokens[start * block_size : stop * block_size]
    span = tuple(keys.span(start, stop))
    return Run(space, keys.parent(start), span, part, start * block_size)


def kv_of(
    keys: tuple[bytes, ...], groups: tuple[GroupSpec, ...] = GROUPS, block_size: int = BLOCK_SIZE
) -> tuple[np.ndarray, ...]:
    """uint8 [num_blocks, num_layers, layer_bytes] a group; every value is a finite number."""
    arrays = []
    for index, group in enumerate(groups):
        shape = len(group.layers), layer_bytes(group, block_size)
        blocks = [
            np.random.default_rng([*key, index]).integers(0, 256, shape, dtype=np.uint8)
            for key in keys
        ]
        array = np.stack(blocks) if blocks else np.zeros((0, *shape), np.uint8)
        array[..., 3::4] = array[..., 1::4] = 0x3F  # the exponents of all three dtypes
        arrays.append(array)
    return tuple(arrays)


def views_of(run: Run, groups=GROUPS, block_size: int = BLOCK_SIZE) -> ArrayViews:
    return ArrayViews(groups, block_size, kv_of(run.keys, groups, block_size))


def tier_of(folder: Path, *, cap_bytes: int = 100 * MIB, **options) -> DiskTier:
    tier = DiskTier(folder, GROUPS, BLOCK_SIZE, cap_bytes=cap_bytes, **options)
    tier.describe(NAMESPACE, fields())
    return tier


def stored_blocks(tier: DiskTier, tokens: np.ndarray, space: bytes = NAMESPACE):
    """The leading full blocks of a sequence that the tier has, as `get` takes them."""
    num_full = len(tokens) // BLOCK_SIZE
    keys = BlockKeys(space, tokens, BLOCK_SIZE).span(0, num_full)
    whole = tokens[: num_full * BLOCK_SIZE].reshape(-1, BLOCK_SIZE)
    places = tier.contains(keys, whole)
    return [
        StoredBlock(key, BLOCK_SIZE, tier.name, place)
        for key, place in zip(keys, places, strict=False)
    ]


def load(tier: DiskTier, blocks) -> tuple[np.ndarray, ...]:
    """The bytes `get` reads; raises `Missing`."""
    arrays = tuple(
        np.zeros((len(blocks), len(group.layers), layer_bytes(group, BLOCK_SIZE)), np.uint8)
        for group in GROUPS
    )
    arrived: list[int] = []
    tier.get(blocks, ArrayViews(GROUPS, BLOCK_SIZE, arrays), arrived.append)
    assert arrived == [0, 1, 2]
    return arrays


def hit(tier: DiskTier, tokens: np.ndarray, space: bytes = NAMESPACE) -> int:
    """Tokens that are loaded; their bytes must be right."""
    blocks = stored_blocks(tier, tokens, space)
    if blocks:
        expected = kv_of(tuple(block.key for block in blocks))
        for got, want in zip(load(tier, blocks), expected, strict=True):
            assert np.array_equal(got, want)
    return len(blocks) * BLOCK_SIZE


def run_files(folder: Path) -> list[Path]:
    return sorted((folder / "runs").glob("*.safetensors"))


def disk_bytes(folder: Path) -> int:
    """Of all that lies among the runs."""
    return sum(path.stat().st_size for path in (folder / "runs").iterdir())
