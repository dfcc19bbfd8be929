"""Block memory without a model: one array of bytes a layer group; runs and stored blocks of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvtool.cache.backing import Run, StoredBlock
from kvtool.cache.block_keys import BlockKeys
from kvtool.cache.block_pool import BlockIds, Tokens
from kvtool.cache.group import GroupSpec
from kvtool.tiers.tier import Tier

BLOCK_SIZE = 4
GROUPS = (  # small and odd
    GroupSpec(layers=(0, 2), kind="kv", num_kv_heads=3, head_dim=5, dtype="bfloat16"),
    GroupSpec(layers=(1,), kind="latent", num_kv_heads=1, head_dim=7, dtype="float32"),
)


class NumpyMemory:
    """Implements `BlockMemory`. `pools`: uint8 [num_blocks, block_bytes] a group, random."""

    def __init__(
        self,
        groups: tuple[GroupSpec, ...] = GROUPS,
        block_size: int = BLOCK_SIZE,
        num_blocks: int = 10,
        seed: int = 0,
    ) -> None:
        self.groups = groups
        self.block_size = block_size
        rows = [
            (layer, (g, row))
            for g, group in enumerate(groups)
            for row, layer in enumerate(group.layers)
        ]
        self.layers = tuple(place for _, place in sorted(rows))
        random = np.random.default_rng(seed)
        self.pools = [
            random.integers(0, 256, (num_blocks, group.block_bytes(block_size)), dtype=np.uint8)
            for group in groups
        ]

    def source(self, block_ids: tuple[BlockIds, ...]) -> NumpyViews:
        return NumpyViews(self, block_ids)

    target = source

    def copy(self) -> list[np.ndarray]:
        return [pool.copy() for pool in self.pools]


class NumpyViews:
    def __init__(self, memory: NumpyMemory, block_ids: tuple[BlockIds, ...]) -> None:
        self._memory = memory
        self._block_ids = block_ids

    @property
    def num_blocks(self) -> int:
        return len(self._block_ids[0])

    def block(self, group: int, index: int) -> memoryview:
        return memoryview(self._memory.pools[group][self._block_ids[group][index]])

    def layer(self, layer: int, index: int) -> memoryview:
        group, row = self._memory.layers[layer]
        block = self.block(group, index)
        size = len(block) // len(self._memory.groups[group].layers)
        return block[row * size : (row + 1) * size]

    def arrived(self, layer: int) -> None:
        raise AssertionError("a tier calls the function it was given")


def prompt(name: str, num_tokens: int, block_size: int = BLOCK_SIZE) -> BlockKeys:
    """The same tokens in a namespace called `name`."""
    tokens = np.arange(num_tokens, dtype=np.int32) * 7 % 50000
    return BlockKeys(name.ljust(32, ".").encode(), tokens, block_size)


def run_of(keys: BlockKeys, start: int = 0, stop: int | None = None) -> Run:
    """Blocks [start, stop) of a prompt, a partial last one included."""
    stop = len(keys) if stop is None else stop
    size = keys.block_size
    return Run(
        namespace=keys.namespace,
        parent=keys.parent(start),
        keys=tuple(keys.span(start, stop)),
        tokens=keys.tokens[start * size : stop * size],
        home=start * size,
    )


def full_blocks(keys: BlockKeys) -> tuple[list[bytes], Tokens]:
    """What `Tier.contains` is asked for a prompt."""
    count = keys.num_full_blocks
    tokens = keys.tokens[: count * keys.block_size]
    return keys.span(0, count), tokens.reshape(count, keys.block_size)


def found(tier: Tier, keys: BlockKeys) -> list[StoredBlock]:
    wanted, tokens = full_blocks(keys)
    places = tier.contains(wanted, tokens)
    return [
        StoredBlock(key, keys.block_size, tier.name, place) for key, place in zip(wanted, places)
    ]


def everywhere(memory: NumpyMemory, block_ids: Sequence[int]) -> tuple[BlockIds, ...]:
    """The same ids in every group, shifted by one from group to group."""
    num_blocks = len(memory.pools[0])
    ids = np.asarray(block_ids, dtype=np.int64)
    return tuple((ids + group) % num_blocks for group in range(len(memory.groups)))
