"""Frozen settings. Field names are the option names; resolution returns a new object."""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheConfig:
    """What `CacheManager` needs to know; no tensor sizes (see `cache.group.GroupSpec`)."""

    num_blocks: int
    block_size: int = 16
    prefix_index: str = "radix"  # radix | chain
    reuse: str = "prefix"  # none | prefix
    evict: str = "lru"  # a name in cache.eviction.POLICIES

    def __post_init__(self) -> None:
        _at_least("block-size", self.block_size, 1)
        _at_least("kv-blocks", self.num_blocks, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """Budgets and bounds of one step.

    watermark: share of blocks kept free for running requests when a new one is admitted
    (never applied while nothing else runs). max_overtakes: how many later arrivals may be
    admitted before a waiting request goes first whatever its prefix hit.
    """

    max_model_len: int
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 2048
    watermark: float = 0.01
    max_overtakes: int = 8
    deterministic: bool = False
    deterministic_chunk: int = 256  # tokens; a multiple of the block size

    def __post_init__(self) -> None:
        _at_least("max-model-len", self.max_model_len, 1)
        _at_least("max-num-seqs", self.max_num_seqs, 1)
        _at_least("max-num-batched-tokens", self.max_num_batched_tokens, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """The engine options of the command line, as given. `None` means: decide from the model."""

    model: str | None = None
    revision: str | None = None
    device: str = "auto"  # auto | cpu | cuda
    dtype: str = "auto"  # auto | float32 | bfloat16 | float16 and aliases
    threads: int | None = None
    max_model_len: int | None = None
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 2048
    block_size: int = 16
    kv_memory: int | None = None  # bytes
    kv_blocks: int | None = None
    prefix_index: str = "radix"
    reuse: str = "prefix"
    evict: str = "lru"
    salt: str | None = None
    deterministic: bool = False
    seed: int = 0
    events: str | None = None

    def __post_init__(self) -> None:
        if self.kv_memory is not None and self.kv_blocks is not None:
            raise ConfigError("--kv-memory and --kv-blocks exclude each other; give one.")


def _at_least(option: str, value: int, minimum: int) -> None:
    if value < minimum:
        raise ConfigError(f"--{option} is {value}; it must be at least {minimum}.")
