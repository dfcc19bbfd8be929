"""What a run measured: times of a request, counts of the engine."""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.engine.batch import Batch


@dataclass(slots=True)
class Timing:
    """Readings of the engine's clock, in seconds; spans are reported in milliseconds."""

    arrival_s: float = 0.0
    first_token_s: float | None = None
    last_token_s: float | None = None
    num_tokens: int = 0

    def token(self, now_s: float) -> None:
        if self.first_token_s is None:
            self.first_token_s = now_s
        self.last_token_s = now_s
        self.num_tokens += 1

    @property
    def ttft_ms(self) -> float | None:
        """Arrival to first token, None before it."""
        if self.first_token_s is None:
            return None
        return 1e3 * (self.first_token_s - self.arrival_s)

    @property
    def tpot_ms(self) -> float | None:
        """Mean time of each token after the first, None before the second."""
        if self.first_token_s is None or self.last_token_s is None or self.num_tokens < 2:
            return None
        return 1e3 * (self.last_token_s - self.first_token_s) / (self.num_tokens - 1)

    @property
    def total_ms(self) -> float | None:
        """Arrival to last token, None before the first."""
        if self.last_token_s is None:
            return None
        return 1e3 * (self.last_token_s - self.arrival_s)


@dataclass(slots=True)
class EngineMetrics:
    """Sums and peaks over all steps.

    Slots are counted in the first layer group, once for every request that holds them.
    """

    steps: int = 0
    scheduled_tokens: int = 0
    scheduled_requests: int = 0
    max_batch_tokens: int = 0
    max_batch_requests: int = 0
    peak_blocks: int = 0  # referenced by running requests at the same time
    preemptions: int = 0
    failed_loads: int = 0  # steps given up because stored KV could not be read
    used_slots: int = 0
    allocated_slots: int = 0

    def record(self, batch: Batch, block_size: int, blocks_in_use: int) -> None:
        self.steps += 1
        self.scheduled_tokens += batch.num_tokens
        self.scheduled_requests += len(batch.requests)
        self.max_batch_tokens = max(self.max_batch_tokens, batch.num_tokens)
        self.max_batch_requests = max(self.max_batch_requests, len(batch.requests))
        self.peak_blocks = max(self.peak_blocks, blocks_in_use)
        for scheduled in batch.requests:
            self.used_slots += scheduled.end
            self.allocated_slots += len(scheduled.entries[0]) * block_size

    @property
    def fragmentation(self) -> float | None:
        """Internal fragmentation: share of allocated slots that hold no token, over all steps."""
        if not self.allocated_slots:
            return None
        return 1.0 - self.used_slots / self.allocated_slots
