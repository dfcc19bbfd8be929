"""What was moved between the pool and one tier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from kvtool.cache.backing import Run, StoredBlock
from kvtool.tiers.tier import Stored


@dataclass(slots=True)
class TierStats:
    """Seconds are those of the threads that copy. skipped: found, but slower to load than to
    compute. not_stored: reason -> number of runs."""

    loaded_blocks: int = 0
    loaded_tokens: int = 0
    loaded_bytes: int = 0
    load_seconds: float = 0.0
    load_failures: int = 0
    stored_blocks: int = 0
    stored_tokens: int = 0
    stored_bytes: int = 0
    store_seconds: float = 0.0
    skipped_blocks: int = 0
    skipped_tokens: int = 0
    not_stored: Counter[str] = field(default_factory=Counter)

    def loaded(self, blocks: Sequence[StoredBlock], num_bytes: int, seconds: float) -> None:
        self.loaded_blocks += len(blocks)
        self.loaded_tokens += sum(block.num_tokens for block in blocks)
        self.loaded_bytes += num_bytes
        self.load_seconds += seconds

    def stored(self, run: Run, stored: Stored, seconds: float) -> None:
        """Of a run that was there in part, the tokens are those of full blocks."""
        whole = stored.num_blocks == len(run.keys)
        size = -(-len(run.tokens) // len(run.keys))
        self.stored_blocks += stored.num_blocks
        self.stored_tokens += len(run.tokens) if whole else stored.num_blocks * size
        self.stored_bytes += stored.num_bytes
        self.store_seconds += seconds
        if stored.reason is not None:
            self.not_stored[stored.reason] += 1

    def skipped(self, blocks: Sequence[StoredBlock]) -> None:
        self.skipped_blocks += len(blocks)
        self.skipped_tokens += sum(block.num_tokens for block in blocks)

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "not_stored": dict(self.not_stored)}
