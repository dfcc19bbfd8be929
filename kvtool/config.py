"""Frozen settings. Field names are the option names; resolution returns a new object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from kvtool.errors import ConfigError

DEFAULT_CACHE_SIZE = 10 * 2**30  # bytes on disk
REUSE_SCHEMES = ("rotate", "nope")  # keys are cached with their rotation, or without
SHIFT_OPTIONS = ("reuse_scheme", "donor", "repair", "min_run", "ungated")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheConfig:
    """What `CacheManager` needs to know; no tensor sizes (see `cache.group.GroupSpec`).

    Only with reuse "shift": donor, repair and min_run are the options of these names (tables in
    `reuse.donors`, `reuse.repair`); bos_id and delta_multiple are facts of the model
    (`reuse.refusals.Limits`).
    """

    num_blocks: int
    block_size: int = 16
    prefix_index: str = "radix"  # radix | chain
    reuse: str = "prefix"  # none | prefix | shift
    evict: str = "lru"  # a name in cache.eviction.POLICIES
    donor: str = "similar"
    repair: str = "auto"
    min_run: int = 128  # tokens
    bos_id: int | None = None
    delta_multiple: int = 1

    def __post_init__(self) -> None:
        _at_least("block-size", self.block_size, 1)
        _at_least("kv-blocks", self.num_blocks, 1)
        _at_least("min-run", self.min_run, 1)


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
    """The engine options of the command line, as given. `None` means: decide from the model.

    cache_dir None: the user's cache folder, unless `no_cache_dir`. host_memory None: see
    `kvtool.runtime.host_memory`. Those of `SHIFT_OPTIONS` mean something with reuse "shift" only;
    reuse_scheme: one of `REUSE_SCHEMES`; ungated: without a passing record of the gate.
    """

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
    reuse_scheme: str = "rotate"
    donor: str = "similar"
    repair: str = "auto"
    min_run: int = 128  # tokens
    ungated: bool = False
    evict: str = "lru"
    cache_dir: str | None = None
    no_cache_dir: bool = False
    cache_size: int = DEFAULT_CACHE_SIZE
    durable: bool = False
    remote: str | None = None  # mooncake://HOST:PORT
    host_memory: int | None = None  # bytes
    salt: str | None = None
    deterministic: bool = False
    seed: int = 0
    events: str | None = None

    def __post_init__(self) -> None:
        if self.kv_memory is not None and self.kv_blocks is not None:
            raise ConfigError("--kv-memory and --kv-blocks exclude each other; give one.")
        if self.reuse == "shift" and self.deterministic:
            raise ConfigError(
                "--reuse shift and --deterministic exclude each other: KV moved from another "
                "context never gives bit-identical logits.",
                hint="Use --reuse prefix with --deterministic.",
            )
        if self.reuse != "shift":
            self._refuse_shift_options()
        if self.reuse_scheme not in REUSE_SCHEMES:
            allowed = ", ".join(REUSE_SCHEMES)
            raise ConfigError(f"--reuse-scheme is {self.reuse_scheme!r}; allowed: {allowed}.")
        _at_least("min-run", self.min_run, 1)
        _at_least("cache-size", self.cache_size, 1)
        _at_least("host-memory", self.host_memory or 0, 0)
        disk = {
            "--cache-dir": self.cache_dir is not None,
            "--cache-size": self.cache_size != DEFAULT_CACHE_SIZE,
            "--durable": self.durable,
        }
        if self.no_cache_dir:
            _refuse_unused("--no-cache-dir", disk)
        if self.reuse == "none":
            below = {
                "--remote": self.remote is not None,
                "--host-memory": bool(self.host_memory),
            }
            _refuse_unused("--reuse none", disk | below)

    def _refuse_shift_options(self) -> None:
        default = {field.name: field.default for field in fields(self)}
        given = [name for name in SHIFT_OPTIONS if getattr(self, name) != default[name]]
        if given:
            options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            raise ConfigError(
                f"Without --reuse shift no text is moved, and {options} would do nothing.",
                hint=f"Add --reuse shift, or drop {options}.",
            )

    @property
    def keeps_on_disk(self) -> bool:
        return self.reuse != "none" and not self.no_cache_dir


def _refuse_unused(off: str, is_given: Mapping[str, bool]) -> None:
    """An option that another one switches off is a mistake, not a wish."""
    unused = [option for option in is_given if is_given[option]]
    if unused:
        raise ConfigError(f"{off} and {', '.join(unused)} exclude each other; drop one.")


def _at_least(option: str, value: int, minimum: int) -> None:
    if value < minimum:
        raise ConfigError(f"--{option} is {value}; it must be at least {minimum}.")
