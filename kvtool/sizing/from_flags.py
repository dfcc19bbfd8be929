"""A model given by numbers on the command line."""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.errors import ConfigError
from kvtool.sizing.layers import FULL, LATENT, SLIDING, LayerCache
from kvtool.sizing.model_spec import ModelSpec

DEFAULT_HEADS, DEFAULT_HEAD_DIM, DEFAULT_ROPE_DIM = 32, 128, 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFlags:
    """Field names are the option names; None: not given."""

    layers: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    hidden_size: int | None = None
    kv_lora_rank: int | None = None
    rope_head_dim: int | None = None
    sliding_window: int | None = None
    sliding_layers: int | None = None

    @property
    def given(self) -> list[str]:
        names = (n for n in self.__slots__ if getattr(self, n) is not None)
        return [f"--{name.replace('_', '-')}" for name in names]


def model_spec(flags: ModelFlags) -> ModelSpec:
    """Raises `ConfigError` for numbers that fit no model."""
    if flags.layers is None:
        raise ConfigError(f"{', '.join(flags.given)} need --layers.", hint="add --layers N.")
    if flags.rope_head_dim is not None and flags.kv_lora_rank is None:
        raise ConfigError("--rope-head-dim needs --kv-lora-rank (MLA).")
    assumed: list[str] = []
    full = _latent(flags, assumed) if flags.kv_lora_rank else _per_head(flags, assumed)
    sliding = _sliding_layers(flags, full)
    return ModelSpec(
        name="(options)",
        model_type=None,
        layers=sliding + ((full,),) * (flags.layers - len(sliding)),
        max_model_len=None,
        weight_bytes=None,
        assumptions=tuple(assumed),
    )


def _per_head(flags: ModelFlags, assumed: list[str]) -> LayerCache:
    heads = _or_default(flags.heads, DEFAULT_HEADS, "--heads", assumed)
    kv_heads = _or_default(flags.kv_heads, heads, "--kv-heads", assumed)
    if heads % kv_heads:
        raise ConfigError(f"--kv-heads {kv_heads} does not divide --heads {heads}.")
    dim = flags.head_dim
    if dim is None and flags.hidden_size is not None:
        if flags.hidden_size % heads:
            raise ConfigError(f"--heads {heads} does not divide --hidden-size {flags.hidden_size}.")
        dim = flags.hidden_size // heads
    dim = _or_default(dim, DEFAULT_HEAD_DIM, "--head-dim", assumed)
    return LayerCache(kind=FULL, num_heads=heads, num_kv_heads=kv_heads, k_dim=dim, v_dim=dim)


def _latent(flags: ModelFlags, assumed: list[str]) -> LayerCache:
    if flags.kv_heads is not None or flags.head_dim is not None or flags.sliding_window is not None:
        raise ConfigError(
            "--kv-lora-rank (MLA) excludes --kv-heads, --head-dim and --sliding-window."
        )
    latent = flags.kv_lora_rank or 0
    rope = _or_default(flags.rope_head_dim, DEFAULT_ROPE_DIM, "--rope-head-dim", assumed)
    heads = _or_default(flags.heads, DEFAULT_HEADS, "--heads", assumed)
    return LayerCache(
        kind=LATENT, num_heads=heads, num_kv_heads=1, k_dim=latent + rope, latent_dim=latent
    )


def _sliding_layers(flags: ModelFlags, full: LayerCache) -> tuple[tuple[LayerCache, ...], ...]:
    layers = flags.layers or 0
    if flags.sliding_window is None:
        if flags.sliding_layers is not None:
            raise ConfigError("--sliding-layers needs --sliding-window.")
        return ()
    number = layers if flags.sliding_layers is None else flags.sliding_layers
    if number > layers:
        raise ConfigError(f"--sliding-layers {number} is more than --layers {layers}.")
    sliding = LayerCache(
        kind=SLIDING,
        num_heads=full.num_heads,
        num_kv_heads=full.num_kv_heads,
        k_dim=full.k_dim,
        v_dim=full.v_dim,
        window=flags.sliding_window,
    )
    return ((sliding,),) * number


def _or_default(value: int | None, default: int, option: str, assumed: list[str]) -> int:
    if value is not None:
        return value
    assumed.append(f"{option} not given: {default}")
    return default
