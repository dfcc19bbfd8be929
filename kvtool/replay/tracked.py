"""What is noted of a request while it is in the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtool.engine.cached_tokens import DEVICE
from kvtool.engine.request import Request
from kvtool.replay.outcome import RequestOutcome, num_prompt_blocks, tokens_in
from kvtool.traces.prepared import PreparedRequest, Unit

if TYPE_CHECKING:
    from kvtool.engine.verify import Verification


@dataclass(slots=True, eq=False)
class Tracked:
    """output_tokens: of the reply, whether the engine decodes it or not. hit: symbols found in the
    cache at the first admission; in_flight: symbols behind them that another request was about to
    compute. evicted: blocks that had been evicted by then. start_s None: not admitted yet."""

    prepared: PreparedRequest
    request: Request
    output_tokens: int
    arrival_s: float
    start_s: float | None = None
    first_token_s: float | None = None
    hit: int = 0
    in_flight: int = 0
    evicted: int = 0
    block_ids: tuple[int, ...] | None = None

    def outcome(
        self, unit: Unit, end_s: float, evicted: int, verification: Verification | None = None
    ) -> RequestOutcome:
        """evicted: blocks that have been evicted by the end."""
        prepared, request = self.prepared, self.request
        assert self.start_s is not None and self.first_token_s is not None
        hit_tokens = tokens_in(self.hit, prepared, unit)
        cached = min(hit_tokens, prepared.num_tokens - 1)
        by_tier = request.cached_by_tier
        if unit.tokens_per_symbol > 1:  # nothing but the pool holds such blocks
            by_tier = {DEVICE: cached} if cached else {}
        elif request.num_cached_tokens != cached:
            cached = request.num_cached_tokens
        return RequestOutcome(
            index=prepared.index,
            id=prepared.request.id,
            arrival_s=self.arrival_s,
            start_s=self.start_s,
            first_token_s=self.first_token_s,
            end_s=end_s,
            prompt_tokens=prepared.num_tokens,
            hit_tokens=hit_tokens,
            cached_tokens=cached,
            output_tokens=self.output_tokens,
            num_blocks=num_prompt_blocks(prepared, unit),
            hit_blocks=self.hit // unit.block_size,
            shifted_tokens=request.sources.shifted,
            recomputed_tokens=request.sources.recomputed,
            moved=tuple((run.start, run.stop) for run in request.moved_runs),
            in_flight_tokens=tokens_in(self.hit + self.in_flight, prepared, unit) - hit_tokens,
            evicted_blocks=evicted - self.evicted,
            preemptions=request.num_preemptions,
            cached_by_tier=by_tier,
            block_ids=self.block_ids,
            verification=verification,
        )


def computed_span(
    positions: np.ndarray[tuple[int], np.dtype[np.int64]],
    num_cached: int,
    prepared: PreparedRequest,
    unit: Unit,
) -> tuple[int, int]:
    """The prompt's tokens [start, stop) that feeding these positions computes, at least one: a
    prompt that is cached completely feeds its last token, not its last block."""
    end = int(positions[-1]) + 1
    if unit.tokens_per_symbol == 1:
        return end - len(positions), end
    first = max(int(positions[0]), num_cached)
    stop = tokens_in(end, prepared, unit)
    if end >= len(prepared.symbols):  # a rest without a symbol of its own is computed with the last
        stop = prepared.num_tokens
    return min(tokens_in(first, prepared, unit), stop - 1), stop
