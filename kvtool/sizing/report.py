"""The answer: one object, printed as JSON or drawn for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSize:
    """One layer group: the bytes of the whole batch, and of one more token of one sequence."""

    kind: str
    layers: int
    shape: str
    window: int | None
    draft: bool
    bytes: int  # K, V or latents by the formula; for state groups the state
    allocated_bytes: int
    bytes_per_token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSize:
    """One layer; a layer with two caches has two rows, one without KV of its own has kind none."""

    layer: int
    kind: str
    num_kv_heads: int
    k_dim: int
    v_dim: int
    window: int | None
    draft: bool
    bytes: int
    bytes_per_token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSize:
    """The fullest of `ranks` GPUs, and all of them together (replicas counted)."""

    ranks: int
    bytes: int
    allocated_bytes: int
    all_ranks_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeReport:
    """Bytes are for the whole batch and one copy of the model unless a name says otherwise."""

    model: Mapping[str, Any]
    bytes: int
    indexer_bytes: int
    mtp_bytes: int
    state_bytes: int
    allocated_bytes: int
    full_length_bytes: int  # allocated, with windowed layers kept at full length
    reserved_bytes: int
    bytes_per_token: int
    formula: str
    groups: tuple[GroupSize, ...]
    per_layer: tuple[LayerSize, ...]
    per_rank: RankSize
    memory: Mapping[str, int | None] | None
    max_tokens: int | None
    max_concurrency: int | None
    vllm_lines: tuple[str, ...]
    vllm_formula: str | None
    decode_read_bytes: int
    cumulative_read_bytes: int
    arithmetic_intensity: float | None
    ridge_point: float | None
    bandwidth_bound: bool | None
    decode_floor_ms: float | None  # reading one rank's KV at the GPU's memory bandwidth
    transfer_ms: Mapping[str, float]
    variants: Mapping[str, int]
    assumptions: tuple[str, ...]
    effective: Mapping[str, Any]
