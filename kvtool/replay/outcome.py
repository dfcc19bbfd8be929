"""What became of one request of a trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kvtool.engine.verify import Verification
from kvtool.traces.prepared import PreparedRequest, Unit


@dataclass(slots=True, kw_only=True)
class RequestOutcome:
    """Times in seconds since the replay's start; start: it was admitted; end: its reply is there.

    hit_tokens: found in the cache, in hit_blocks blocks (of num_blocks, a partial one included).
    cached_tokens: those used, at least one less than the prompt, by tier in cached_by_tier; with
    shifted, recomputed and computed they are the prompt. moved: where shifted and recomputed ones
    are, [start, stop) ascending. in_flight_tokens: behind the hit, tokens
    that a running request was about to compute when this one started, in whole blocks.
    evicted_blocks: by anybody, between start and end. block_ids: of the prompt and of what was
    computed of the reply, in the first layer group; only where they were asked for.
    """

    index: int
    id: str
    arrival_s: float
    start_s: float
    first_token_s: float
    end_s: float
    prompt_tokens: int
    hit_tokens: int
    cached_tokens: int
    output_tokens: int
    num_blocks: int
    hit_blocks: int
    cached_by_tier: Mapping[str, int]
    shifted_tokens: int = 0
    recomputed_tokens: int = 0
    moved: tuple[tuple[int, int], ...] = ()
    in_flight_tokens: int = 0
    evicted_blocks: int = 0
    preemptions: int = 0
    block_ids: tuple[int, ...] | None = None
    verification: Verification | None = None

    @property
    def computed_tokens(self) -> int:
        reused = self.cached_tokens + self.shifted_tokens + self.recomputed_tokens
        return self.prompt_tokens - reused

    @property
    def queue_s(self) -> float:
        return self.start_s - self.arrival_s

    @property
    def ttft_s(self) -> float:
        return self.first_token_s - self.arrival_s


OutcomeSink = Callable[[RequestOutcome], None]


def tokens_in(num_symbols: int, prepared: PreparedRequest, unit: Unit) -> int:
    """What the first symbols of a request stand for."""
    return min(num_symbols * unit.tokens_per_symbol, prepared.num_tokens)


def num_prompt_blocks(prepared: PreparedRequest, unit: Unit) -> int:
    return -(-len(prepared.symbols) // unit.block_size)
