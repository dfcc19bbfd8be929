"""The two lines vLLM prints at start, for a given memory.

    GPU KV cache size: 42,656 tokens
    Maximum concurrency for 32,768 tokens per request: 1.30x

Source: vllm/v1/core/kv_cache_utils.py and kv_cache_interface.py. Layers that keep the same form a
kind; all pages are made equal; a group has as many layers as the smallest kind (or the largest, if
it is less than 1.5 times that), kinds are padded to whole groups, and a block belongs to one group.
The first line has had two formulas:
  legacy (about v0.19 and before)  num_blocks // num_groups * block_size
  current                          max_concurrency * max_model_len
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from kvtool.sizing.formats import KVFormat
from kvtool.sizing.layers import CHUNKED, CROSS, STATE, KVCacheSpec
from kvtool.sizing.lengths import blocks
from kvtool.sizing.sequence_bytes import index_row, state_bytes

ALIGNMENT = 16  # tokens; block sizes are multiples of it


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLimits:
    """vLLM's own options, and the tokens-per-request it reports concurrency for."""

    memory: int  # bytes for KV on each GPU
    block_size: int
    max_model_len: int
    max_num_batched_tokens: int
    cp: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    num_blocks: int
    num_groups: int
    blocks_per_request: int
    block_size: int
    limits: EngineLimits

    @property
    def max_concurrency(self) -> Fraction:
        return Fraction(self.num_blocks, self.blocks_per_request)

    def tokens(self, formula: str) -> int:
        if formula == "legacy":
            return self.num_blocks // self.num_groups * self.block_size * self.limits.cp
        return int(self.max_concurrency * self.limits.max_model_len)

    def lines(self, formula: str) -> tuple[str, str]:
        return (
            f"GPU KV cache size: {self.tokens(formula):,} tokens",
            f"Maximum concurrency for {self.limits.max_model_len:,} tokens per request: "
            f"{float(self.max_concurrency):.2f}x",
        )


@dataclass(frozen=True, slots=True)
class _Kind:
    """Layers of one cache shape: bytes of one layer's block, tokens of a block."""

    spec: KVCacheSpec
    page: int
    block_size: int

    @property
    def num_layers(self) -> int:
        return len(self.spec.layers)

    def blocks_per_request(self, limits: EngineLimits) -> int:
        cache, length = self.spec.cache, limits.max_model_len
        if cache.kind == STATE:
            return 1
        if cache.window is None:
            return blocks(blocks(length, limits.cp), self.block_size)
        if cache.kind == CHUNKED:
            held = min(cache.window + limits.max_num_batched_tokens, length)
            return blocks(held, self.block_size)
        held = min(cache.window - 1 + limits.max_num_batched_tokens, length)
        return blocks(held, self.block_size) + 1


def startup(
    stages: Sequence[tuple[KVCacheSpec, ...]], fmt: KVFormat, limits: EngineLimits
) -> Startup | None:
    """The rank with the fewest blocks decides; None where vLLM has no such layout."""
    found = [_startup(specs, fmt, limits) for specs in stages]
    known = [s for s in found if s is not None]
    return min(known, key=lambda s: s.num_blocks) if len(known) == len(found) else None


def _startup(specs: tuple[KVCacheSpec, ...], fmt: KVFormat, limits: EngineLimits) -> Startup | None:
    if any(s.cache.kind == CROSS for s in specs):
        return None
    kinds = _equal_pages([_kind(s, fmt, limits.block_size) for s in specs])
    if not kinds:
        return None
    if all(k.spec.cache.grows for k in kinds) or len(kinds) == 1:
        per_block = sum(k.page * k.num_layers for k in kinds)
        num_groups, per_request = 1, kinds[0].blocks_per_request(limits)
    else:
        counts = [k.num_layers for k in kinds]
        size = max(counts) if max(counts) < 1.5 * min(counts) else min(counts)
        groups = [blocks(count, size) for count in counts]
        per_block, num_groups = kinds[0].page * size, sum(groups)
        per_request = sum(n * k.blocks_per_request(limits) for n, k in zip(groups, kinds))
    return Startup(
        num_blocks=limits.memory // per_block,
        num_groups=num_groups,
        blocks_per_request=per_request,
        block_size=min(k.block_size for k in kinds),
        limits=limits,
    )


def _kind(spec: KVCacheSpec, fmt: KVFormat, block_size: int) -> _Kind:
    if spec.cache.kind == STATE:
        return _Kind(spec, state_bytes(spec, 1) // len(spec.layers), block_size)
    row = fmt.stored(spec.cache) + index_row(spec.cache)
    return _Kind(spec, block_size * row, block_size)


def _equal_pages(kinds: list[_Kind]) -> list[_Kind]:
    """Raises block sizes until all pages are equal; empty where that is impossible.

    Kinds that are all full attention keep their own pages: they share one block table.
    """
    if all(k.spec.cache.grows for k in kinds):
        return kinds
    states = [k for k in kinds if k.spec.cache.kind == STATE]
    attending = [k for k in kinds if k.spec.cache.kind != STATE]
    page = max((k.page for k in attending), default=0)
    widest = max((k.page for k in states), default=0)
    if attending and widest > page:
        step = page // attending[0].block_size * ALIGNMENT
        page = blocks(widest, step) * step
    page = page or widest
    if any(page % k.page for k in attending):
        return []
    raised = [_Kind(k.spec, page, k.block_size * (page // k.page)) for k in attending]
    block_size = max((k.block_size for k in raised), default=kinds[0].block_size)
    return raised + [_Kind(k.spec, page, block_size) for k in states]
