"""Small managers and token sequences that share prefixes."""

from __future__ import annotations

from typing import Any

import numpy as np

from kvtool.cache.block_tree import BlockTree
from kvtool.cache.eviction import BlockUse
from kvtool.cache.group import GroupSpec
from kvtool.cache.manager import CacheManager, SequenceKV, Tokens
from kvtool.config import CacheConfig

GROUP = GroupSpec(layers=(0,), kind="kv", num_kv_heads=1, head_dim=4, dtype="float32")


def make_manager(
    num_blocks: int,
    block_size: int = 4,
    *,
    groups: tuple[GroupSpec, ...] = (GROUP,),
    events: Any = None,
    index: Any = None,
    backing: Any = None,
    **config: Any,
) -> CacheManager:
    settings = CacheConfig(num_blocks=num_blocks, block_size=block_size, **config)
    return CacheManager(groups, settings, events=events, index=index, backing=backing)


def tokens_of(*ids: int) -> Tokens:
    return np.array(ids, dtype=np.int32)


def tokens_from(start: int, count: int) -> Tokens:
    return np.arange(start, start + count, dtype=np.int32)


def uses_of(tree: BlockTree) -> list[BlockUse]:
    return [tree.use(block) for block in range(tree.pool.num_blocks)]


def cached_texts(tree: BlockTree) -> list[tuple[list[int], bytes]]:
    """Of every leaf: the blocks of its sequence, namespace and tokens."""
    leaves = sorted((leaf, namespace) for namespace, leaf in tree.leaves())
    return [(tree.chain(leaf), namespace + b"/" + tree.tokens(leaf)) for leaf, namespace in leaves]


def new_tokens(rng: np.random.Generator, history: list[Tokens], block_size: int) -> Tokens:
    """A sequence over three token ids; often one seen before, cut and continued."""
    fresh = rng.integers(0, 3, int(rng.integers(1, 5 * block_size + 2))).astype(np.int32)
    if not history or rng.random() < 0.3:
        return fresh
    old = history[int(rng.integers(len(history)))]
    kept = old[: int(rng.integers(1, len(old) + 1))]
    return kept if rng.random() < 0.3 else np.concatenate([kept, fresh])


def run(manager: CacheManager, tokens: Tokens, namespace: bytes = b"") -> SequenceKV:
    """One request from begin to free; returns what it held (now empty), hit in `num_cached`."""
    kv = manager.begin(tokens, namespace)
    hit = kv.num_cached
    assert manager.allocate(kv, len(tokens)) is not None
    manager.commit(kv, tokens)
    manager.free(kv, tokens)
    kv.num_cached = hit
    return kv
