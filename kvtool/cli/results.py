"""What `generate` and `prefill` report. Field names are those of the JSON document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """prompt_tokens = cached + shifted + recomputed + computed."""

    prompt_tokens: int
    cached_tokens: int
    shifted_tokens: int
    recomputed_tokens: int
    computed_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingReport:
    """ttft: arrival to first token. tpot: mean of each token after it, null for one token."""

    ttft_ms: float | None
    tpot_ms: float | None
    total_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    token_id: int
    token: str
    logprob: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprobs(TokenLogprob):
    """The chosen token; top: the likeliest ones, best first."""

    top: tuple[TokenLogprob, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One reply; the last two parts are there when they were asked for."""

    text: str
    token_ids: list[int]
    finish_reason: str
    usage: UsageReport
    timing: TimingReport
    logprobs: list[TokenLogprobs] | None = None
    verify: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What the user wants to see of it."""

    format: str  # human | json
    stats: bool
    verify: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefilledFile:
    """What `prefill` did with one prompt.

    tier: the lowest one, which outlives the process. stored_tokens: how many of the prompt's
    leading tokens a later run can take from there alone; stored_bytes: their KV.
    """

    name: str
    prompt_tokens: int
    cached_tokens: int
    shifted_tokens: int
    recomputed_tokens: int
    computed_tokens: int
    stored_tokens: int
    stored_bytes: int
    tier: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillTiming:
    """store: from the last token computed until all KV was kept."""

    compute_ms: float
    store_ms: float
    total_ms: float
