"""Sums over all requests of a replay."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvtool.replay.distribution import Distribution
from kvtool.replay.outcome import RequestOutcome


@dataclass(slots=True)
class Totals:
    """Tokens and blocks as in `RequestOutcome`; evicted_blocks counts each eviction once."""

    requests: int = 0
    prompt_tokens: int = 0
    hit_tokens: int = 0
    cached_tokens: int = 0
    shifted_tokens: int = 0
    recomputed_tokens: int = 0
    computed_tokens: int = 0
    in_flight_tokens: int = 0
    output_tokens: int = 0
    num_blocks: int = 0
    hit_blocks: int = 0
    evicted_blocks: int = 0
    preemptions: int = 0
    peak_held_blocks: int = 0
    end_s: float = 0.0
    cached_by_tier: dict[str, int] = field(default_factory=dict)
    ttft_s: Distribution = field(default_factory=Distribution)
    queue_s: Distribution = field(default_factory=Distribution)

    def add(self, outcome: RequestOutcome) -> None:
        self.requests += 1
        self.prompt_tokens += outcome.prompt_tokens
        self.hit_tokens += outcome.hit_tokens
        self.cached_tokens += outcome.cached_tokens
        self.shifted_tokens += outcome.shifted_tokens
        self.recomputed_tokens += outcome.recomputed_tokens
        self.computed_tokens += outcome.computed_tokens
        self.in_flight_tokens += outcome.in_flight_tokens
        self.output_tokens += outcome.output_tokens
        self.num_blocks += outcome.num_blocks
        self.hit_blocks += outcome.hit_blocks
        self.preemptions += outcome.preemptions
        if outcome.end_s > self.end_s:
            self.end_s = outcome.end_s
        for tier, tokens in outcome.cached_by_tier.items():
            self.cached_by_tier[tier] = self.cached_by_tier.get(tier, 0) + tokens
        self.ttft_s.add(outcome.ttft_s)
        self.queue_s.add(outcome.queue_s)

    @property
    def hit_rate(self) -> float:
        """Tokens found in the cache, of all prompt tokens; 0 before the first."""
        return self.hit_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    @property
    def block_hit_rate(self) -> float:
        return self.hit_blocks / self.num_blocks if self.num_blocks else 0.0
